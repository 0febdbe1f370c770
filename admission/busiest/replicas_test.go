package busiest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

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

func put(t *testing.T, r *busiest.Replicas, all ...busiest.Snapshot) {
	t.Helper()
	for _, s := range all {
		if err := r.Put(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// want holds that r knows of these other replicas, in any order.
func want(t *testing.T, r *busiest.Replicas, others ...busiest.Snapshot) {
	t.Helper()
	got, err := r.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got = got[1:] // the first is that of r
	slices.SortFunc(got, func(a, b busiest.Snapshot) int { return strings.Compare(a.Replica.Name, b.Replica.Name) })
	if len(got) != len(others) || len(others) > 0 && !reflect.DeepEqual(got, others) {
		t.Errorf("got\n%+v, want\n%+v", got, others)
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
				r := busiest.NewReplicas(client, prefix, logr.Discard())
				put(t, r, test.put...)
				want(t, r, test.want...)
				if n := len(client.HGetAll(t.Context(), prefix+"counts").Val()); n != len(test.want) {
					t.Errorf("Redis keeps those of %d replicas, want %d", n, len(test.want))
				}
			})
		}
	}
}

func standalone(t *testing.T) (*busiest.Replicas, *redisclient.Client, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	client := redistest.Client(t, redisclient.Options{Addresses: []string{server.Addr()}})
	return busiest.NewReplicas(client, "", logr.Discard()), client, server
}

func TestWhatCannotBeReadNamesTheReplicaAndIsRemoved(t *testing.T) {
	zip := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return b.String()
	}
	r, client, _ := standalone(t)
	a := counted("a", 1, time.Now().UTC())
	put(t, r, a)
	for says, value := range map[string]string{
		"is not compressed": "{}",
		"is no JSON":        zip("{"),
		// What is compressed in parts is read as a whole.
		"is endless": zip(`{"x":"`) + strings.Repeat(zip(strings.Repeat(" ", 1<<20)), busiest.MaxUnpacked>>20),
	} {
		t.Run(says, func(t *testing.T) {
			client.HSet(t.Context(), "counts", "b", value)
			if _, err := r.All(t.Context()); err == nil || !strings.Contains(err.Error(), `what replica "b" counted: `) {
				t.Errorf("%v, want one that names b", err)
			}
			want(t, r, a)
		})
	}
}

func TestALargeSnapshotIsReadAsItWasWrittenAndExpires(t *testing.T) {
	c := busiest.NewCounter("a", time.Now(), busiest.Places)
	for n := range busiest.DetailPlaces {
		text := string(rune('a'+n%26)) + strings.Repeat("\x00", busiest.MaxPart-4) + string(rune('a'+n/26))
		d := (&written{
			Namespace: text, Policy: text, Type: text, Reason: text,
			Object: store.Object{Kind: text, Namespace: text, Name: text}, Source: store.Source{Component: text, Host: text},
		}).decided(store.Drop)
		d.Bucket, d.Quotas, d.Governing = text, []store.Bucket{{Key: store.KeyOf(text), Name: text, Policy: text}}, &policy.Governing{Policy: policy.Default()}
		c.Decided(d)
	}
	r, client, _ := standalone(t)
	s := c.Snapshot(time.Now().UTC().Truncate(time.Millisecond))
	s.Replica.Since = s.Replica.At
	if n := len(s.Within.Details); n != busiest.DetailPlaces || len(s.Within.Buckets) != busiest.Places {
		t.Errorf("%d details and %d buckets are followed", n, len(s.Within.Buckets))
	}
	put(t, r, s)
	want(t, r, s)
	if left := client.PTTL(t.Context(), "counts").Val(); left <= 0 || left > busiest.Life {
		t.Errorf("it is left for %v, want %v", left, busiest.Life)
	}
}

func ask(t *testing.T, h http.Handler) busiest.Sum {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/busiest", nil))
	var sum busiest.Sum
	if err := json.Unmarshal(w.Body.Bytes(), &sum); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d: %v: %s", w.Code, err, w.Body)
	}
	return sum
}

func TestEachReplicaSaysWhatIsBusiestOnAll(t *testing.T) {
	a, client, server := standalone(t)
	b, alone := busiest.NewReplicas(client, "", logr.Discard()), busiest.NewReplicas(nil, "", logr.Discard())
	decide := func(r *busiest.Replicas, v store.Verdict, objects ...int) {
		for _, n := range objects {
			r.Counter.Decided(write(n).decided(v))
		}
	}
	decide(a, store.Merge, 0, 1)
	decide(b, store.Drop, 0)
	decide(alone, store.Drop, 0)
	for _, one := range []*busiest.Replicas{a, b} {
		put(t, one, one.Counter.Snapshot(time.Now()))
	}
	decide(a, store.Merge, 1) // which only a knows yet
	for says, test := range map[string]struct {
		asked    *busiest.Replicas
		replicas int
		want     busiest.Counts
	}{
		"one by its own counts of now": {a, 2, busiest.Counts{Merged: 3, Dropped: 1}},
		"the other by what it heard":   {b, 2, busiest.Counts{Merged: 2, Dropped: 1}},
		"one that shares nothing":      {alone, 1, busiest.Counts{Dropped: 1}},
	} {
		if sum := ask(t, test.asked); len(sum.Replicas) != test.replicas || sum.Partial || sum.By[busiest.Source].Total != test.want {
			t.Errorf("%s: %+v, want %+v", says, sum, test.want)
		}
	}
	server.Kill()
	if sum := ask(t, a); len(sum.Replicas) != 1 || !sum.Partial || sum.By[busiest.Source].Total.Merged != 3 {
		t.Errorf("%+v without Redis, want its own counts as a part", sum)
	}
	if err := a.Put(t.Context(), counted("a", 1, time.Now())); err == nil || !strings.Contains(err.Error(), "write to Redis what was counted: ") {
		t.Errorf("Put: %v", err)
	}
	if _, err := a.All(t.Context()); err == nil || !strings.Contains(err.Error(), "read from Redis what was counted: ") {
		t.Errorf("All: %v", err)
	}
}

func TestBusiestTakesNoQuery(t *testing.T) {
	w := httptest.NewRecorder()
	busiest.NewReplicas(nil, "", logr.Discard()).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/busiest?by=source", nil))
	if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusBadRequest || got != "busiest: takes no query" {
		t.Errorf("%d: %q", w.Code, got)
	}
}

// spy is a Redis that takes all, unless it is to fail.
type spy struct {
	fails atomic.Bool
	puts  atomic.Int64
}

// Call implements redisclient.Caller.
func (s *spy) Call(ctx context.Context, cmds ...redis.Cmder) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if s.fails.Load() {
		return errors.New("away")
	}
	if cmds[0].Name() == "hset" {
		s.puts.Add(1)
	}
	return nil
}

func TestAReplicaSharesEveryTwoSecondsAndAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		client := &spy{}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { busiest.NewReplicas(client, "", log).Run(ctx); close(done) }()
		wants := func(puts, logged int) {
			t.Helper()
			if n := client.puts.Load(); n != int64(puts) || len(lines) != logged {
				t.Errorf("written %d times, want %d; logged %q, want %d lines", n, puts, lines, logged)
			}
		}
		<-time.After(7 * time.Second)
		wants(4, 0)
		client.fails.Store(true)
		<-time.After(8 * time.Second)
		wants(4, 1)
		client.fails.Store(false)
		<-time.After(8 * time.Second)
		wants(8, 1)
		end()
		<-done
		wants(9, 1)
	})
}
