package e2e

import (
	"slices"
	"testing"
	"time"

	redistest "github.com/eventquota/eventquota/test/redis"
)

const (
	// storeDeadline is how long a decision waits for Redis, by default.
	storeDeadline = 50 * time.Millisecond
	// webhookTimeout is how long the API server waits for the webhook.
	webhookTimeout = 2 * time.Second
	// openWithin is how many decisions of one replica may wait in vain until it
	// no longer asks Redis.
	openWithin = 10
	// closeWithin is how long after Redis is back every replica asks it again.
	closeWithin = 10 * time.Second
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
	if p50 := alone.part(0.5); p50 >= storeDeadline {
		e.Errorf("half of the Events took %s or longer: they waited for Redis, which is known to be away", p50)
	}
	e.must(e.storm(namespace, 200))
	e.answersInTime()
	e.noneFailed()

	e.must(a.back())
	back := time.Now()
	e.eventually("all replicas ask Redis again", func() bool { return slices.Max(e.each(storeUnavailable)) == 0 })
	e.Logf("all replicas ask Redis again %s after it is back", time.Since(back).Round(time.Millisecond))
	if took := time.Since(back); took > closeWithin {
		e.Errorf("it took %s until all replicas ask Redis again, want at most %s", took, closeWithin)
	}
	e.quiet()
	e.decidedAlone()
	e.noneFailed()
	(&faultyStorm{faultEnv: e, namespace: namespace}).holds(0, 0)
}

// opens holds that each replica soon asks Redis no more.
func (e *faultEnv) opens(namespace string) {
	e.Helper()
	failed := make([]int64, len(e.set.Replicas))
	before := e.each(withoutStore)
	opening := e.writeAll(namespace, "opening", 60, func() {
		away, now := e.each(storeUnavailable), e.each(withoutStore)
		for i := range failed {
			if failed[i] == 0 && away[i] == 1 {
				failed[i] = now[i] - before[i]
			}
		}
	})
	e.Logf("when Redis goes away: %s; decisions of each replica that waited in vain: %d", opening, failed)
	for i, n := range failed {
		if n < 1 || n > openWithin {
			e.Errorf("replica %d stopped to ask Redis after %d decisions, want 1 to %d", i, n, openWithin)
		}
	}
}

// answersInTime holds that no replica took so long for a review, since its
// start, that the API server was about to give it up.
func (e *faultEnv) answersInTime() {
	e.Helper()
	for i, r := range e.set.Replicas {
		for _, m := range e.metrics(r)["controller_runtime_webhook_latency_seconds"].GetMetric() {
			h := m.GetHistogram()
			var within []uint64 // 100 ms, and half of what the API server waits
			for _, bucket := range h.GetBucket() {
				if le := bucket.GetUpperBound(); le == 0.1 || le == (webhookTimeout/2).Seconds() {
					within = append(within, bucket.GetCumulativeCount())
				}
			}
			e.Logf("replica %d: %d reviews, within 100 ms and within %s: %d", i, h.GetSampleCount(), webhookTimeout/2, within)
			if len(within) != 2 || h.GetSampleCount() == 0 || within[1] != h.GetSampleCount() {
				e.Errorf("replica %d answered %d reviews, %d of them within 100 ms and %s, want all", i, h.GetSampleCount(), within, webhookTimeout/2)
			}
		}
	}
}
