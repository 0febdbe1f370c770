package e2e

import (
	"slices"
	"testing"
	"time"

	redistest "github.com/eventquota/eventquota/test/redis"
)

const (
	// webhookTimeout is how long the API server waits for the webhook, as shipped.
	webhookTimeout = time.Second
	// openWithin is how many calls of one replica may fail until it no longer asks Redis: five in a row,
	// those that are under way then, and the settler's.
	openWithin = 30
)

// TestStoreAway holds I5 and the limits for two replicas whose Redis does not
// answer, and I1 for when it is back.
func TestStoreAway(t *testing.T) {
	if !isolated(t) {
		return
	}
	for _, tt := range []struct {
		name string
		away func(t *testing.T, server *redistest.Server) away
	}{
		{"Redis is stopped", func(t *testing.T, server *redistest.Server) away {
			t.Helper()
			return away{server.Addr(), server.Stop, func() error { return server.Restart(t.Context()) }}
		}},
		{"Redis is paused", func(_ *testing.T, server *redistest.Server) away {
			return away{server.Addr(), server.Pause, server.Resume}
		}},
		{"Redis answers after 5 s", func(t *testing.T, server *redistest.Server) away {
			t.Helper()
			p := newSlowProxy(t, server.Addr())
			slow := func(d time.Duration) func() error {
				return func() error { p.delay.Store(int64(d)); return nil }
			}
			return away{p.listener.Addr().String(), slow(5 * time.Second), slow(0)}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := standalone(t)
			server, err := r.master(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			a := tt.away(t, server)
			e := newSetEnv(t, 2, "--redis-addresses="+a.address, "--calls-per-connection=10")
			a.test(&faultEnv{setEnv: e, redis: r})
		})
	}
}

// away is a Redis that goes away and comes back.
type away struct {
	address    string
	goes, back func() error
}

func (a away) test(e *faultEnv) {
	namespace := e.namespace("away")
	e.leader()
	nothing := func() {}
	healthy := e.writeAll(namespace, "healthy", 100, nothing)
	e.Logf("with Redis: %s", healthy)
	if healthy.dropped == 0 {
		e.Errorf("all %d Events of one source and object were stored: that is no limit", healthy.stored)
	}

	e.must(a.goes())
	e.opens(namespace)
	alone := e.writeAll(namespace, "alone", 200, nothing)
	e.Logf("without: %s", alone)
	// A bucket is full at each replica that has not heard of it.
	if most := len(e.set.Replicas) * healthy.stored; alone.stored > most || alone.stored < healthy.stored {
		e.Errorf("%d Events of one source and object were stored, want %d by each of the replicas it went to, %d at most",
			alone.stored, healthy.stored, most)
	}
	e.must(e.storm(namespace, 200))
	e.noneFailed()

	e.must(a.back())
	back := time.Now()
	e.eventually("all replicas ask Redis again", func() bool { return slices.Max(e.each(storeUnavailable)) == 0 })
	e.Logf("all replicas ask Redis again %s after it is back", time.Since(back).Round(time.Millisecond))
	e.quiet()
	e.decidedAlone()
	e.noneFailed()
	(&faultyStorm{faultEnv: e, namespace: namespace}).holds(0, 0)
}

// opens holds that each replica soon asks Redis no more.
func (e *faultEnv) opens(namespace string) {
	e.Helper()
	failed := make([]int64, len(e.set.Replicas))
	before := e.each(storeErrors)
	opening := e.writeAll(namespace, "opening", 60, func() {
		away, now := e.each(storeUnavailable), e.each(storeErrors)
		for i := range failed {
			if failed[i] == 0 && away[i] == 1 {
				failed[i] = now[i] - before[i]
			}
		}
	})
	e.Logf("when Redis goes away: %s; calls of each replica that failed: %d", opening, failed)
	for i, n := range failed {
		if n < 1 || n > openWithin {
			e.Errorf("replica %d stopped to ask Redis after %d calls that failed, want 1 to %d", i, n, openWithin)
		}
	}
}
