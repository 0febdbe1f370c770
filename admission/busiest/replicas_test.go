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

// snapshotOf is the snapshot of a replica that has counted n objects.
func snapshotOf(replica string, n int, at time.Time) busiest.Snapshot {
	c := busiest.NewCounter(replica, at.Add(-time.Hour), busiest.MaxTracked)
	for i := range n {
		d := write(i).decided(store.Drop)
		d.Rule.Identity.UID = "uid"
		c.CountDecision(d)
	}
	return c.Snapshot(at)
}

func publishAll(t *testing.T, r *busiest.Replicas, all ...busiest.Snapshot) {
	t.Helper()
	for _, s := range all {
		if err := r.Publish(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// wantOthers checks that r has the snapshots of these other replicas, in any order.
func wantOthers(t *testing.T, r *busiest.Replicas, others ...busiest.Snapshot) {
	t.Helper()
	got, err := r.Snapshots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got = got[1:] // the first is that of r
	slices.SortFunc(got, func(a, b busiest.Snapshot) int { return strings.Compare(a.Replica.Name, b.Replica.Name) })
	if len(got) != len(others) || len(others) > 0 && !reflect.DeepEqual(got, others) {
		t.Errorf("got\n%+v, want\n%+v", got, others)
	}
}

// TestReplicasShareSnapshots needs no more rights than the user of README has.
func TestReplicasShareSnapshots(t *testing.T) {
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
		a, large := snapshotOf("a", 3, now), snapshotOf("b", 300, now)
		for says, test := range map[string]struct{ put, want []busiest.Snapshot }{
			"nobody has written anything":             {nil, nil},
			"all replicas are read":                   {[]busiest.Snapshot{a, large, snapshotOf("c", 0, now)}, []busiest.Snapshot{a, large, snapshotOf("c", 0, now)}},
			"a replica replaces what it wrote before": {[]busiest.Snapshot{snapshotOf("a", 1, now), a, a}, []busiest.Snapshot{a}},
			"one that stopped long ago is forgotten":  {[]busiest.Snapshot{a, snapshotOf("old", 1, now.Add(-busiest.SnapshotTTL))}, []busiest.Snapshot{a}},
		} {
			t.Run(kind+"/"+says, func(t *testing.T) {
				prefix := "eventquota:" + strings.ReplaceAll(says, " ", "-") + ":"
				r := busiest.NewReplicas(client, prefix, logr.Discard())
				publishAll(t, r, test.put...)
				wantOthers(t, r, test.want...)
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

func TestInvalidSnapshotIsReportedAndRemoved(t *testing.T) {
	zip := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return b.String()
	}
	r, client, _ := standalone(t)
	a := snapshotOf("a", 1, time.Now().UTC())
	publishAll(t, r, a)
	for says, value := range map[string]string{
		"is not compressed": "{}",
		"is no JSON":        zip("{"),
		// Concatenated gzip members decompress to one stream.
		"is endless": zip(`{"x":"`) + strings.Repeat(zip(strings.Repeat(" ", 1<<20)), busiest.MaxSnapshotBytes>>20),
	} {
		t.Run(says, func(t *testing.T) {
			client.HSet(t.Context(), "counts", "b", value)
			if _, err := r.Snapshots(t.Context()); err == nil || !strings.Contains(err.Error(), `read counts of replica "b" from Redis: `) {
				t.Errorf("%v, want one that names b", err)
			}
			wantOthers(t, r, a)
		})
	}
}

func TestLargeSnapshotRoundTripAndExpiry(t *testing.T) {
	c := busiest.NewCounter("a", time.Now(), busiest.MaxTracked)
	for n := range busiest.MaxTrackedDetails {
		text := string(rune('a'+n%26)) + strings.Repeat("\x00", busiest.MaxNameBytes-4) + string(rune('a'+n/26))
		d := (&testWrite{
			Namespace: text, Policy: text, Type: text, Reason: text,
			Object: store.Object{Kind: text, Namespace: text, Name: text}, Source: store.Source{Component: text, Host: text},
		}).decided(store.Drop)
		d.Bucket, d.Quotas, d.Resolution = text, []store.Bucket{{Key: store.KeyOf(text), Name: text, Policy: text}}, &policy.Resolution{Policy: policy.Default()}
		c.CountDecision(d)
	}
	r, client, _ := standalone(t)
	s := c.Snapshot(time.Now().UTC().Truncate(time.Millisecond))
	s.Replica.Since = s.Replica.At
	if n := len(s.Breakdown.Details); n != busiest.MaxTrackedDetails || len(s.Breakdown.Buckets) != busiest.MaxTracked {
		t.Errorf("%d details and %d buckets are followed", n, len(s.Breakdown.Buckets))
	}
	publishAll(t, r, s)
	wantOthers(t, r, s)
	if left := client.PTTL(t.Context(), "counts").Val(); left <= 0 || left > busiest.SnapshotTTL {
		t.Errorf("it is left for %v, want %v", left, busiest.SnapshotTTL)
	}
}

func getSum(t *testing.T, h http.Handler) busiest.Sum {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/busiest", nil))
	var sum busiest.Sum
	if err := json.Unmarshal(w.Body.Bytes(), &sum); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d: %v: %s", w.Code, err, w.Body)
	}
	return sum
}

func TestEachReplicaServesTheSum(t *testing.T) {
	a, client, server := standalone(t)
	b, alone := busiest.NewReplicas(client, "", logr.Discard()), busiest.NewReplicas(nil, "", logr.Discard())
	decide := func(r *busiest.Replicas, v store.Verdict, objects ...int) {
		for _, n := range objects {
			r.Counter.CountDecision(write(n).decided(v))
		}
	}
	decide(a, store.Merge, 0, 1)
	decide(b, store.Drop, 0)
	decide(alone, store.Drop, 0)
	for _, one := range []*busiest.Replicas{a, b} {
		publishAll(t, one, one.Counter.Snapshot(time.Now()))
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
		if sum := getSum(t, test.asked); len(sum.Replicas) != test.replicas || sum.Partial || sum.Rankings[busiest.Source].Total != test.want {
			t.Errorf("%s: %+v, want %+v", says, sum, test.want)
		}
	}
	server.Kill()
	if sum := getSum(t, a); len(sum.Replicas) != 1 || !sum.Partial || sum.Rankings[busiest.Source].Total.Merged != 3 {
		t.Errorf("%+v without Redis, want its own counts as a part", sum)
	}
	if err := a.Publish(t.Context(), snapshotOf("a", 1, time.Now())); err == nil || !strings.Contains(err.Error(), "write counts to Redis: ") {
		t.Errorf("Put: %v", err)
	}
	if _, err := a.Snapshots(t.Context()); err == nil || !strings.Contains(err.Error(), "read counts from Redis: ") {
		t.Errorf("All: %v", err)
	}
}

func TestServeHTTPRejectsQuery(t *testing.T) {
	w := httptest.NewRecorder()
	busiest.NewReplicas(nil, "", logr.Discard()).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/busiest?by=source", nil))
	if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusBadRequest || got != "busiest: takes no query parameters" {
		t.Errorf("%d: %q", w.Code, got)
	}
}

// fakeRedis is a Redis that accepts all commands unless it is set to fail.
type fakeRedis struct {
	fails atomic.Bool
	puts  atomic.Int64
}

// Call implements redisclient.Caller.
func (s *fakeRedis) Call(ctx context.Context, cmds ...redis.Cmder) error {
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

func TestReplicaPublishesPeriodicallyAndOnStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		client := &fakeRedis{}
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
