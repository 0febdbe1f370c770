package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/connect"
	"github.com/eventquota/eventquota/store/storetest"
	"github.com/eventquota/eventquota/test/redis"
)

// stores makes stores on one Redis that know nothing of each other.
type stores struct {
	client *connect.Client
	serial atomic.Int64
}

func (s *stores) fresh(*testing.T) storetest.Subject {
	return store.NewPunctual(store.NewRedis(s.client, store.RedisOptions{Prefix: fmt.Sprint("test-", s.serial.Add(1), ":")}))
}

// standalone starts one Redis server.
func standalone(t testing.TB) *stores {
	t.Helper()
	return on(t, connect.Options{Addresses: []string{redistest.Start(t, redistest.Options{}).Addr()}})
}

// cluster starts a Redis Cluster of three masters.
func cluster(t *testing.T) *stores {
	t.Helper()
	return on(t, connect.Options{Addresses: redistest.StartCluster(t, redistest.Options{}, 3, 0).Addrs(), Cluster: true})
}

// on connects to a Redis, with the other options as by default.
func on(t testing.TB, o connect.Options) *stores {
	t.Helper()
	all := connect.DefaultOptions()
	all.Addresses, all.Cluster = o.Addresses, o.Cluster
	all.Username, all.PasswordFile = o.Username, o.PasswordFile
	all.Timeout = time.Minute // on a machine that is busy
	c, err := connect.New(*all)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &stores{client: c}
}

func TestRedisKeepsTheRules(t *testing.T) {
	storetest.Run(t, standalone(t).fresh)
}

func TestRedisClusterKeepsTheRules(t *testing.T) {
	storetest.Run(t, cluster(t).fresh)
}

func TestRedisLosesNothing(t *testing.T) {
	on := standalone(t)
	for _, test := range faultMixes() {
		t.Run(test.says, func(t *testing.T) {
			storetest.Simulate(t, test.faults, storetest.Seeds{First: *firstSeed, Runs: (*runs + 9) / 10, Steps: *steps}, on.fresh)
		})
	}
}

// The rights are those in docs/operations.md.
func TestRedisNeedsFewRights(t *testing.T) {
	rules := "resetchannels ~test-* +hello +auth +ping +select +client|setname " +
		"+eval +evalsha +time +get +set +del +pexpire +zadd +zrem +zrangebyscore +zcard"
	user := redistest.User{Name: "eventquota", Password: "secret", Rules: rules}
	server := redistest.Start(t, redistest.Options{Users: []redistest.User{user}})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(user.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	o := connect.Options{Addresses: []string{server.Addr()}, Username: user.Name, PasswordFile: password}
	f := storetest.Faults{Refusals: true, Deletions: true}
	s := on(t, o)
	storetest.Simulate(t, f, storetest.Seeds{First: 1, Runs: 3, Steps: 300}, s.fresh)
	if _, err := store.NewRedis(s.client, store.RedisOptions{Prefix: "test-"}).Owed(t.Context()); err != nil {
		t.Error(err)
	}
}

// What replicas think of the time does not matter, only what Redis does.
func TestRedisHasItsOwnClock(t *testing.T) {
	s := store.NewRedis(standalone(t).client, store.RedisOptions{Prefix: "test:"})
	w, tm := event("a"), terms()
	tm.Spam.Limit = store.Limit{Burst: 1, Every: time.Hour}
	before := time.Now()
	for i, now := range []time.Time{before.Add(-50 * time.Hour), before, before.Add(50 * time.Hour)} {
		w.Name = fmt.Sprint("a", i)
		d, err := s.Take(t.Context(), now, w, tm)
		switch {
		case err != nil:
			t.Fatal(err)
		case i == 0 && d.Verdict != store.Admit:
			t.Errorf("%v, want the first one admitted", d.Verdict)
		case i > 0 && (d.Verdict != store.Drop || d.Next.Sub(before) < 59*time.Minute || d.Next.Sub(before) > 61*time.Minute):
			t.Errorf("%v, next token at %v, want a drop with the next token in an hour", d.Verdict, d.Next)
		}
	}
}

// A server that was replaced, or whose scripts were flushed, knows no script.
func TestRedisMayForgetScripts(t *testing.T) {
	on := standalone(t)
	s := on.fresh(t)
	for i := range 3 {
		now := time.Now().Add(time.Duration(i) * time.Minute)
		for _, name := range []string{"a", "b"} {
			on.client.ScriptFlush(t.Context())
			w := event(name)
			w.Name = fmt.Sprint(name, i)
			d, err := s.Merge(t.Context(), now, w, terms())
			if want := i > 0 || name == "b"; err != nil || (d.Verdict == store.Merge) != want {
				t.Fatalf("%v, %v; merged: want %t", d.Verdict, err, want)
			}
		}
		on.client.ScriptFlush(t.Context())
		debts, err := s.Due(t.Context(), now, time.Minute, 10)
		if err != nil || len(debts) != 1 {
			t.Fatalf("%d debts, %v; want 1", len(debts), err)
		}
		on.client.ScriptFlush(t.Context())
		if err := s.Settle(t.Context(), now, debts[0], store.Told); err != nil {
			t.Fatal(err)
		}
	}
}

// Nothing is left for ever, whatever became of it.
func TestRedisKeysExpire(t *testing.T) {
	on := standalone(t)
	storetest.Simulate(t, storetest.Faults{Refusals: true, Deletions: true}, storetest.Seeds{First: 1, Runs: 5, Steps: 300}, on.fresh)
	n := 0
	for keys := on.client.Scan(t.Context(), 0, "*", 100).Iterator(); keys.Next(t.Context()); n++ {
		if ttl := on.client.PTTL(t.Context(), keys.Val()).Val(); ttl <= 0 {
			t.Errorf("%s has no expiry", keys.Val())
		}
		if !strings.HasPrefix(keys.Val(), "test-") {
			t.Errorf("%s is not under the prefix", keys.Val())
		}
	}
	if n < 5 {
		t.Errorf("%d keys are left of 5 runs: too few to tell", n)
	}
}

func FuzzRedisEqualsMemory(f *testing.F) {
	on := standalone(f)
	for seed := range uint64(3) {
		f.Add(storetest.RandomSteps(seed, 100))
	}
	f.Fuzz(func(t *testing.T, choices []byte) { storetest.CompareSteps(t, choices, newMemory, on.fresh) })
}

// event is a first Event about one object.
func event(name string) store.Write {
	return store.Write{
		Group: store.KeyOf("group"), Exact: store.KeyOf("exact"), Similar: store.KeyOf("similar"), Message: store.KeyOf("message"),
		Namespace: "production", Name: name, Count: 1, At: time.Now(), Text: "Back-off restarting failed container", Reason: "BackOff",
		Subject: store.Subject{
			APIVersion: "v1", Kind: "Pod", Namespace: "production", Name: "web-6d4b75cb6d-4kqzb",
			UID: "0b8ff1a6-5c1d-4f7e-9d0a-6b1f3f6f9b11", Component: "kubelet", Host: "node-17",
		},
	}
}

// terms are those of the default policy.
func terms() store.Terms {
	return store.Terms{
		MaxEvents: 10, Window: 10 * time.Minute, RepeatWindow: time.Hour, FlushInterval: 10 * time.Second, KeepMessages: 5,
		Spam:             store.Bucket{Name: "spam filter", Key: store.KeyOf("spam"), Limit: store.Limit{Burst: 25, Every: 5 * time.Minute}},
		ReservePerReason: 1,
	}
}

func TestRedisEqualsMemory(t *testing.T) {
	storetest.Compare(t, storetest.Seeds{First: *firstSeed, Runs: (*runs + 3) / 4, Steps: *steps}, newMemory, standalone(t).fresh)
}
