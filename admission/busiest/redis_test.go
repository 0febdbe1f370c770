package busiest_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
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
		d := write(i).decided(store.Drop)
		d.Rule.Identity.UID = "uid"
		c.Decided(d)
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
	slices.SortFunc(got, func(a, b busiest.Snapshot) int { return strings.Compare(a.Replica.Name, b.Replica.Name) })
	if len(got) != len(all) || len(all) > 0 && !reflect.DeepEqual(got, all) {
		t.Errorf("got\n%+v, want\n%+v", got, all)
	}
}

// TestReplicasTellEachOther needs no more rights than the user of README has.
func TestReplicasTellEachOther(t *testing.T) {
	user := redistest.User{Name: "eventquota", Password: "secret", Rules: "resetchannels ~eventquota:* +hello +auth +ping +select " +
		"+client|setname +cluster|slots +command +asking +pexpire +hset +hgetall +hdel"}
	options := redistest.Options{Password: "admin", Users: []redistest.User{user}}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(user.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	server, nodes := redistest.Start(t, options), redistest.StartCluster(t, options, 3, 0)
	now := time.Now().UTC().Truncate(time.Millisecond)
	for kind, o := range map[string]redisclient.Options{
		"Redis": {Addresses: []string{server.Addr()}}, "Redis Cluster": {Addresses: nodes.Addrs(), Cluster: true},
	} {
		o.Username, o.PasswordFile = user.Name, password
		client := redistest.Client(t, o)
		a, large := counted("a", 3, now), counted("b", 300, now)
		for says, test := range map[string]struct{ put, want []busiest.Snapshot }{
			"nobody has written anything":             {nil, nil},
			"all replicas are read":                   {[]busiest.Snapshot{a, large, counted("c", 0, now)}, []busiest.Snapshot{a, large, counted("c", 0, now)}},
			"a replica replaces what it wrote before": {[]busiest.Snapshot{counted("a", 1, now), a, a}, []busiest.Snapshot{a}},
			"one that stopped long ago is forgotten":  {[]busiest.Snapshot{a, counted("old", 1, now.Add(-busiest.Life))}, []busiest.Snapshot{a}},
		} {
			t.Run(kind+"/"+says, func(t *testing.T) {
				prefix := "eventquota:" + strings.ReplaceAll(says, " ", "-") + ":"
				r := busiest.NewRedis(client, prefix)
				put(t, r, test.put...)
				want(t, r, test.want...)
				if n := len(client.HGetAll(t.Context(), prefix+"counts").Val()); n != len(test.want) {
					t.Errorf("Redis keeps those of %d replicas, want %d", n, len(test.want))
				}
			})
		}
	}
}

func TestSnapshotsExpire(t *testing.T) {
	client := standalone(t)
	put(t, busiest.NewRedis(client, ""), counted("a", 1, time.Now()))
	if left := client.PTTL(t.Context(), "counts").Val(); left <= 0 || left > busiest.Life {
		t.Errorf("they are left for %v, want %v", left, busiest.Life)
	}
}

func TestWhatCannotBeReadNamesTheReplicaAndIsRemoved(t *testing.T) {
	zip := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return b.String()
	}
	server := standalone(t)
	r, a := busiest.NewRedis(server, ""), counted("a", 1, time.Now().UTC())
	put(t, r, a)
	for says, value := range map[string]string{
		"is not compressed": "{}",
		"is no JSON":        zip("{"),
		// What is compressed in parts is read as a whole.
		"is endless": zip(`{"x":"`) + strings.Repeat(zip(strings.Repeat(" ", 1<<20)), busiest.MaxUnpacked>>20),
	} {
		t.Run(says, func(t *testing.T) {
			server.HSet(t.Context(), "counts", "b", value)
			if _, err := r.All(t.Context()); err == nil || !strings.Contains(err.Error(), `what replica "b" counted: `) {
				t.Errorf("%v, want one that names b", err)
			}
			want(t, r, a)
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
	if err := r.Put(t.Context(), counted("a", 1, time.Now())); err == nil || !strings.Contains(err.Error(), "write to Redis what was counted: ") {
		t.Errorf("Put: %v", err)
	}
	if _, err := r.All(t.Context()); err == nil || !strings.Contains(err.Error(), "read from Redis what was counted: ") {
		t.Errorf("All: %v", err)
	}
}
