package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redistest "github.com/eventquota/eventquota/test/redis"
)

const (
	// webhookTimeout is the shipped timeout of webhook calls.
	webhookTimeout = time.Second
	// maxFailedCalls bounds the failed calls of one replica before it stops calling Redis: five in a row, the calls
	// in flight at that time, and the settler's.
	maxFailedCalls = 30
)

// TestRedisOutage checks I5 and the limits for two replicas while Redis is stopped, hangs or is slow, and I1 once
// Redis is back.
func TestRedisOutage(t *testing.T) {
	t.Parallel()
	r := newStandaloneRedis(t)
	server, err := r.master(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	proxy := redistest.StartProxy(t, server.Addr())
	slow := func(d time.Duration) func() error {
		return func() error { proxy.Delay(d); return nil }
	}
	away := func(interrupt, restore func() error) func(*faultEnv) *faultyStorm {
		return func(e *faultEnv) *faultyStorm { return e.redisOutage(interrupt, restore) }
	}
	e := newSetEnv(t, 2, "--redis-addresses="+proxy.Addr().String(), "--calls-per-connection=10").withRedis(r)
	e.runFaults(
		fault{"stopped", away(server.Stop, func() error { return server.Restart(t.Context()) })},
		fault{"paused", away(server.Pause, server.Resume)},
		// Redis executes the calls that a client has given up on.
		fault{"slow", away(slow(2500*time.Millisecond), slow(0))},
	)
}

// redisOutage makes Redis unavailable by interrupt and available again by restore.
func (e *faultEnv) redisOutage(interrupt, restore func() error) *faultyStorm {
	s := e.newStorm()
	namespace := s.namespace
	decided, reported := e.localDecisions()
	e.leader()
	nothing := func() {}
	healthy := e.writeAll(namespace, "healthy", 100, nothing)
	e.Logf("with Redis: %s", healthy)
	if healthy.dropped == 0 {
		e.Errorf("all %d Events of one source and object were stored, want some dropped", healthy.stored)
	}

	failed := e.metricOfEach(storeErrors)
	e.must(interrupt())
	e.checkBreakersOpen(namespace, failed)
	alone := e.writeAll(namespace, "alone", 200, nothing)
	e.Logf("without Redis: %s", alone)
	// Each replica decides locally from a full bucket.
	if most := len(e.set.Replicas) * healthy.stored; alone.stored > most || alone.stored < healthy.stored {
		e.Errorf("%d Events of one source and object were stored without Redis, want %d for each replica that got some, %d at most",
			alone.stored, healthy.stored, most)
	}
	e.must(e.storm(namespace, 60))
	e.checkNoneFailed()

	e.must(restore())
	since := time.Now()
	e.eventually("all replicas call Redis again", func() bool { return slices.Max(e.metricOfEach(storeUnavailable)) == 0 })
	e.Logf("all replicas call Redis again %s after it is back", time.Since(since).Round(time.Millisecond))
	e.waitIdle()
	e.checkLocalDecisions(decided, reported)
	e.checkNoneFailed()
	return s
}

// checkBreakersOpen checks that each replica soon stops calling Redis. before is the number of failed calls of each
// replica while Redis still answered. Slow background calls may open a breaker before the first Event is written, and
// before any of them has ended and counts as failed.
func (e *faultEnv) checkBreakersOpen(namespace string, before []int64) {
	e.Helper()
	failed := make([]int64, len(e.set.Replicas))
	opened := make([]bool, len(e.set.Replicas))
	var pods int
	// All calls of a connection reach one replica, so the number of calls needed to reach each is unknown.
	e.eventually("each replica has stopped calling Redis", func() bool {
		pods++
		opening := e.writeAll(namespace, fmt.Sprint("opening-", pods), 20, func() {
			away, now := e.metricOfEach(storeUnavailable), e.metricOfEach(storeErrors)
			for i := range failed {
				if !opened[i] && away[i] == 1 {
					opened[i], failed[i] = true, now[i]-before[i]
				}
			}
		})
		e.Logf("while Redis becomes unavailable: %s; failed calls of each replica: %d", opening, failed)
		return !slices.Contains(opened, false)
	})
	for i, n := range failed {
		if n > maxFailedCalls {
			e.Errorf("replica %d stopped calling Redis after %d failed calls, want %d at most", i, n, maxFailedCalls)
		}
	}
}

// writeResult counts the outcomes of Events that were written one after the other.
type writeResult struct {
	stored, merged, dropped int
	waits                   []time.Duration // of the writer for each Event, sorted
}

// writeAll writes n Events about a pod. Each has its own reason, so none is merged and each costs a token. after is
// called after each Event.
func (e *env) writeAll(namespace, pod string, n int, after func()) (w writeResult) {
	e.Helper()
	for i := range n {
		event := coreEvent(namespace, fmt.Sprintf("%s-%d", pod, i), pod, "one of a kind")
		event.Reason = fmt.Sprintf("Reason%d", i)
		begun := time.Now()
		_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
		w.waits = append(w.waits, time.Since(begun))
		switch {
		case err == nil:
			w.stored++
		case apierrors.IsAlreadyExists(err):
			w.merged++
		case isRefusedUnmerged(err):
			w.dropped++
		default:
			e.must(err)
		}
		after()
	}
	slices.Sort(w.waits)
	return w
}

// quantile returns the p-quantile of the waits.
func (w writeResult) quantile(p float64) time.Duration {
	return w.waits[int(p*float64(len(w.waits)-1))]
}

// countLonger counts the waits of d or longer.
func (w writeResult) countLonger(d time.Duration) int {
	shorter, _ := slices.BinarySearch(w.waits, d)
	return len(w.waits) - shorter
}

func (w writeResult) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
	return fmt.Sprintf("%d stored, %d merged, %d dropped; waited %s (p50), %s (p99), %s (max); %d longer than 50ms",
		w.stored, w.merged, w.dropped, ms(w.quantile(0.5)), ms(w.quantile(0.99)), ms(w.quantile(1)), w.countLonger(50*time.Millisecond))
}
