package busiest_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

func standalone(t *testing.T) *redisclient.Client {
	t.Helper()
	return redistest.Client(t, redisclient.Options{Addresses: []string{redistest.Start(t, redistest.Options{}).Addr()}})
}

// counted is what a replica has counted of n objects.
func counted(replica string, n int, at time.Time) busiest.Snapshot {
	c := busiest.NewCounter(replica, at.Add(-time.Hour), busiest.Places)
	for i := range n {
		c.Decided(write(i).decided(store.Drop))
	}
	return c.Snapshot(at)
}

func put(t *testing.T, r *busiest.Redis, all ...busiest.Snapshot) {
	t.Helper()
	for _, s := range all {
		if err := r.Put(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// want holds that r has these snapshots, in any order.
func want(t *testing.T, r *busiest.Redis, all ...busiest.Snapshot) {
	t.Helper()
	got, err := r.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := busiest.Add(got), busiest.Add(all); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

func TestReplicasTellEachOther(t *testing.T) {
	nodes := redistest.StartCluster(t, redistest.Options{}, 3, 0)
	now := time.Now().UTC().Truncate(time.Millisecond)
	for kind, client := range map[string]*redisclient.Client{
		"Redis":         standalone(t),
		"Redis Cluster": redistest.Client(t, redisclient.Options{Addresses: nodes.Addrs(), Cluster: true}),
	} {
		for says, holds := range map[string]func(*testing.T, *busiest.Redis, func(string) string){
			"nobody has written anything": func(t *testing.T, r *busiest.Redis, _ func(string) string) {
				t.Helper()
				want(t, r)
			},
			"all replicas are read": func(t *testing.T, r *busiest.Redis, _ func(string) string) {
				t.Helper()
				all := []busiest.Snapshot{counted("a", 3, now), counted("b", 300, now), counted("c", 0, now)}
				put(t, r, all...)
				want(t, r, all...)
			},
			"a replica replaces what it wrote before, and writing twice does no harm": func(t *testing.T, r *busiest.Redis, _ func(string) string) {
				t.Helper()
				put(t, r, counted("a", 5, now), counted("a", 7, now), counted("a", 7, now))
				want(t, r, counted("a", 7, now))
			},
			"all expires": func(t *testing.T, r *busiest.Redis, key func(string) string) {
				t.Helper()
				put(t, r, counted("a", 1, now))
				for _, k := range []string{key(""), key(":a")} {
					if left := client.PTTL(t.Context(), k).Val(); left <= 0 || left > busiest.Life {
						t.Errorf("%q is left for %v, want %v", k, left, busiest.Life)
					}
				}
			},
			"a replica that has ended is not read, and one that stopped long ago is forgotten": func(t *testing.T, r *busiest.Redis, key func(string) string) {
				t.Helper()
				put(t, r, counted("ended", 1, now.Add(-busiest.Life+time.Minute)), counted("old", 1, now.Add(-busiest.Life)))
				for _, k := range []string{key(":ended"), key(":old")} {
					if n, err := client.Del(t.Context(), k).Result(); n != 1 || err != nil {
						t.Fatalf("%d of %q are deleted, %v", n, k, err)
					}
				}
				put(t, r, counted("a", 1, now))
				want(t, r, counted("a", 1, now))
				if all := client.ZRange(t.Context(), key(""), 0, -1).Val(); len(all) != 2 || all[0] != "ended" || all[1] != "a" {
					t.Errorf("the index has %q, want ended and a", all)
				}
			},
		} {
			t.Run(kind+"/"+says, func(t *testing.T) {
				prefix := strings.ReplaceAll(says, " ", "-") + ":"
				holds(t, busiest.NewRedis(client, prefix), func(k string) string { return prefix + "busiest" + k })
			})
		}
	}
}

func TestSumsAreThereForWhoeverGoesOn(t *testing.T) {
	client := standalone(t)
	r, sums := busiest.NewRedis(client, "x:"), map[string]int{"as it was": 1}
	if err := r.Load(t.Context(), &sums); err != nil || sums["as it was"] != 1 {
		t.Errorf("%v, %v, want it unchanged as nothing was saved", sums, err)
	}
	if err := r.Save(t.Context(), map[string]int{"p": 7}); err != nil {
		t.Fatal(err)
	}
	if left := client.PTTL(t.Context(), "x:busiest:sums").Val(); left <= busiest.Life {
		t.Errorf("they are left for %v, want longer than a snapshot", left)
	}
	if err := r.Load(t.Context(), &sums); err != nil || sums["p"] != 7 {
		t.Errorf("%v, %v, want what was saved", sums, err)
	}
	client.Set(t.Context(), "x:busiest:sums", "{", 0)
	if err := r.Load(t.Context(), &sums); err == nil {
		t.Error("what cannot be read is no error")
	}
}

// The rights are those in the README.
func TestTellingNeedsNoMoreRightsThanAStore(t *testing.T) {
	user := redistest.User{Name: "eventquota", Password: "secret", Rules: "resetchannels ~eventquota:* +hello +auth +ping +select " +
		"+client|setname +eval +evalsha +time +get +set +del +pexpire +zadd +zrem +zrangebyscore +zcard"}
	server := redistest.Start(t, redistest.Options{Users: []redistest.User{user}})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(user.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	c := redistest.Client(t, redisclient.Options{Addresses: []string{server.Addr()}, Username: user.Name, PasswordFile: password})
	r, now := busiest.NewRedis(c, "eventquota:"), time.Now()
	put(t, r, counted("old", 1, now.Add(-time.Hour)), counted("a", 1, now))
	if all, err := r.All(t.Context()); err != nil || len(all) != 1 { // the old one is forgotten
		t.Errorf("%d snapshots, %v", len(all), err)
	}
}

func TestWhatCannotBeReadNamesTheReplica(t *testing.T) {
	zip := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return b.String()
	}
	server := standalone(t)
	r := busiest.NewRedis(server, "")
	put(t, r, counted("a", 1, time.Now()), counted("b", 1, time.Now()))
	for says, value := range map[string]string{
		"is not compressed": "{}",
		"is no JSON":        zip("{"),
		// What is compressed in parts is read as a whole.
		"is endless": zip(`{"x":"`) + strings.Repeat(zip(strings.Repeat(" ", 1<<20)), busiest.MaxUnpacked>>20),
	} {
		t.Run(says, func(t *testing.T) {
			server.Set(t.Context(), "busiest:b", value, 0)
			if _, err := r.All(t.Context()); err == nil || !strings.Contains(err.Error(), `what replica "b" counted: `) {
				t.Errorf("%v, want one that names b", err)
			}
		})
	}
}

func TestALargeSnapshotIsReadAsItWasWritten(t *testing.T) {
	c := busiest.NewCounter("a", time.Now(), busiest.Places)
	for n := range busiest.Places {
		text := string(rune('a'+n%26)) + strings.Repeat("\x00", busiest.MaxPart-4) + string(rune('a'+n/26))
		c.Decided((&written{Namespace: text, Policy: text, Subject: busiest.Subject{
			Object: store.Object{Kind: text, Namespace: text, Name: text},
			Source: store.Source{Component: text, Host: text},
		}}).decided(store.Drop))
	}
	r, s := busiest.NewRedis(standalone(t), ""), c.Snapshot(time.Now().UTC().Truncate(time.Millisecond))
	s.Replica.Since = s.Replica.At
	put(t, r, s)
	want(t, r, s)
}

func TestARedisThatIsAwayIsAnErrorThatSaysSo(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	r := busiest.NewRedis(redistest.Client(t, redisclient.Options{Addresses: []string{server.Addr()}}), "")
	put(t, r, counted("a", 1, time.Now()))
	server.Kill()
	if err := r.Put(t.Context(), counted("a", 1, time.Now())); err == nil || !strings.Contains(err.Error(), "write to Redis what is busiest: ") {
		t.Errorf("Put: %v", err)
	}
	if _, err := r.All(t.Context()); err == nil || !strings.Contains(err.Error(), "read from Redis which replicas count: ") {
		t.Errorf("All: %v", err)
	}
}
