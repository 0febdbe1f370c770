package settler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

// The API server is unavailable, so that no claimed write is returned.
func TestClaimLimit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ namespaces, want int }{
		"of one namespace":   {1, 64},
		"of many namespaces": {10, 117},
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(r *rig) {
				for i := range 1000 {
					r.queue.writes = append(r.queue.writes, r.pendingIn(fmt.Sprint("ns", i%tt.namespaces), fmt.Sprint("e", i)))
				}
				r.answer = func(q *request) error {
					if q.after < time.Minute {
						return errRefused
					}
					return nil
				}
				r.run(3*time.Minute, settler.Options{})
				if r.queue.maxClaimed != tt.want || len(r.queue.outcomes) != 1000 {
					r.Errorf("%d groups claimed at the same time, want %d; %d written", r.queue.maxClaimed, tt.want, len(r.queue.outcomes))
				}
			})
		})
	}
}

// TestFailingWritesDoNotDelayOtherNamespaces has more namespaces than claims can be full of, whose writes all fail as
// if the API server took none.
func TestFailingWritesDoNotDelayOtherNamespaces(t *testing.T) {
	runInBubble(t, func(r *rig) {
		for i := range 1000 {
			r.queue.writes = append(r.queue.writes, r.pendingIn(fmt.Sprint("failing", i%10), fmt.Sprint("e", i)))
		}
		r.answer = func(q *request) error {
			if strings.Contains(q.text, "failing") {
				return errRefused
			}
			return nil
		}
		abandon := make(chan struct{})
		ended := r.start(&ignorePending{r.queue}, time.Hour, settler.Options{Abandon: abandon})
		<-time.After(time.Minute)
		quiet := r.pendingIn("quiet", "quiet")
		r.queue.mu.Lock()
		r.queue.writes = append(r.queue.writes, quiet)
		r.queue.mu.Unlock()
		<-time.After(time.Minute)
		close(abandon)
		ended()
		if !slices.Contains(r.queue.outcomes, "quiet written") {
			r.Error("a write waits for those of other namespaces, which fail")
		}
	})
}

func TestPartialClaimIsWritten(t *testing.T) {
	runInBubble(t, func(r *rig) {
		a, b := r.pending("a"), r.pending("b")
		r.queue.writes = []store.PendingWrite{a, b}
		r.queue.failingClaims, r.queue.claimResult = 8, []store.PendingWrite{a}
		wait := r.start(r.queue, 10*time.Second, settler.Options{})
		<-time.After(1500 * time.Millisecond)
		if got := fmt.Sprint(r.requestTexts()); got != "[patch default/a]" {
			r.Errorf("did %s while the store did not return all, want a patch of a", got)
		}
		wait()
		if got := fmt.Sprint(r.queue.outcomes); got != "[a written b written]" {
			r.Errorf("%s, want both written, each once", got)
		}
		if len(r.logged) != 1 {
			r.Errorf("logged %q, want one line", r.logged)
		}
	})
}

func TestSettlerPausesWhileStoreIsUnavailable(t *testing.T) {
	runInBubble(t, func(r *rig) {
		var mu sync.Mutex
		available := false
		set := func(to bool) {
			mu.Lock()
			defer mu.Unlock()
			available = to
		}
		r.queue.writes = []store.PendingWrite{r.pending("a")}
		wait := r.start(r.queue, time.Minute, settler.Options{Available: func() bool {
			mu.Lock()
			defer mu.Unlock()
			return available
		}})
		<-time.After(5 * time.Second)
		if r.queue.maxClaimed != 0 {
			r.Error("claimed while the store is unavailable")
		}
		r.answer = func(q *request) error {
			if q.number == 1 {
				set(false)
				return errRefused
			}
			return nil
		}
		set(true)
		<-time.After(5 * time.Second)
		if got := fmt.Sprint(r.requestTexts()); got != "[patch default/a]" {
			r.Errorf("did %s, want one patch, and none since the store is unavailable", got)
		}
		set(true)
		wait()
		if got := fmt.Sprint(r.queue.outcomes); got != "[a written]" {
			r.Errorf("%s, want a written", got)
		}
	})
}

// TestGroupWritesKeepOrder holds that what an Event hands over comes before the notice that takes it over.
func TestGroupWritesKeepOrder(t *testing.T) {
	runInBubble(t, func(r *rig) {
		for i := range 20 {
			r.queue.writes = append(r.queue.writes, r.pending(fmt.Sprintf("e%02d", i), func(p *store.PendingWrite) {
				p.Ref = store.Ref{Group: store.KeyOf("g"), ID: uint64(i)}
			}))
		}
		r.run(time.Second, settler.Options{})
		if len(r.queue.outcomes) != 20 || !slices.IsSorted(r.queue.outcomes) {
			r.Errorf("%v, want all in order", r.queue.outcomes)
		}
	})
}

func TestCompleteIsRetriedWithoutRewriting(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.queue.writes, r.queue.failingCompletes = []store.PendingWrite{r.pending("a")}, 3
		r.run(10*time.Second, settler.Options{})
		if got := fmt.Sprint(r.requestTexts(), r.queue.outcomes, r.results); got != "[patch default/a] [a written] [written]" {
			r.Errorf("did %s", got)
		}
	})
}

func TestDrainFailsWithPendingWrites(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		breaks func(*rig)
		o      settler.Options
		want   string
	}{
		"the API server stays unavailable": {
			func(r *rig) { r.answer = func(*request) error { return errRefused } },
			settler.Options{},
			"counts of 2 or more sources and objects are still pending after a drain of 15s",
		},
		"the store does not answer": {
			func(r *rig) { r.queue.failingClaims = 1 << 20 },
			settler.Options{DrainTimeout: func() time.Duration { return time.Second }},
			"counts of 1 or more sources and objects are still pending after a drain of 1s",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(r *rig) {
				r.queue.writes = []store.PendingWrite{r.pending("a"), r.pending("b")}
				tt.breaks(r)
				err := r.settle(r.queue, time.Minute, tt.o)
				if err == nil || err.Error() != tt.want {
					r.Errorf("error %v, want %s", err, tt.want)
				}
				drain := 15 * time.Second
				if tt.o.DrainTimeout != nil {
					drain = tt.o.DrainTimeout()
				}
				if took := time.Since(r.started); took != time.Minute+drain {
					r.Errorf("ended after %v, want %v", took, time.Minute+drain)
				}
			})
		})
	}
}

// TestDrainLeavesRestToNextReplica has one write that is claimed when the settler stops, and one that falls due much later.
func TestDrainLeavesRestToNextReplica(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		takenOver bool
		want      []string
	}{
		"another replica takes over": {true, []string{"a written"}},
		"no replica takes over":      {false, []string{"a written", "b written"}},
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(r *rig) {
				r.queue.writes = []store.PendingWrite{r.pending("a"), r.pending("b", func(p *store.PendingWrite) { p.Due = time.Now().Add(time.Hour) })}
				r.answer = func(q *request) error {
					if q.after < time.Minute {
						return errRefused
					}
					return nil
				}
				var asked []time.Duration
				r.run(time.Minute, settler.Options{TakenOver: func(context.Context) bool {
					asked = append(asked, time.Since(r.started))
					return tt.takenOver
				}})
				if slices.Sort(r.queue.outcomes); !slices.Equal(r.queue.outcomes, tt.want) {
					r.Errorf("came %v, want %v", r.queue.outcomes, tt.want)
				}
				if want := []time.Duration{time.Minute}; !slices.Equal(asked, want) {
					r.Errorf("asked whether another takes over after %v, want %v", asked, want)
				}
			})
		})
	}
}

// TestDrainDoesNotWaitForUnavailableSharedStore checks that the settler leaves the writes that it has claimed to the
// next replica. They are still pending in the store.
func TestDrainDoesNotWaitForUnavailableSharedStore(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.queue.writes = []store.PendingWrite{r.pending("a")}
		var unavailable atomic.Bool
		r.answer = func(*request) error {
			unavailable.Store(true)
			return errRefused
		}
		r.run(time.Minute, settler.Options{
			TakenOver: func(context.Context) bool { return true }, Available: func() bool { return !unavailable.Load() },
		})
		if took := time.Since(r.started); took != time.Minute || len(r.queue.outcomes) > 0 {
			r.Errorf("ended after %v with %v, want 1m0s and nothing completed", took, r.queue.outcomes)
		}
	})
}

func TestAbandonStopsWrites(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.queue.writes = []store.PendingWrite{r.pending("a"), r.pending("b"), r.pending("c")}
		abandon := make(chan struct{})
		r.answer = func(q *request) error {
			if q.number == 3 {
				close(abandon)
			}
			return errRefused // so that all are tried again
		}
		r.run(time.Hour, settler.Options{Abandon: abandon})
		if took := time.Since(r.started); took > time.Second {
			r.Errorf("ended after %v, want at once", took)
		}
		if len(r.requests) != 3 {
			r.Errorf("did %v, want 3 requests", r.requestTexts())
		}
	})
}

// TestLagIsTimeSinceDue holds that it is reported once for each write that the API
// server took, with the time that retries took.
func TestLagIsTimeSinceDue(t *testing.T) {
	t.Parallel()
	due := func(ago time.Duration) func(*store.PendingWrite) {
		return func(p *store.PendingWrite) { p.Due = time.Now().Add(-ago) }
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.queue.writes = []store.PendingWrite{
			r.pending("late", due(3*time.Second)), r.pending("early", due(-time.Hour)), r.pending("missing", due(time.Hour)), r.pending("retried", due(0)),
		}
		r.remove("default", "missing")
		r.answer = func(q *request) error {
			if q.text == "patch default/retried" && q.after < 4*time.Second {
				return errRefused
			}
			return nil
		}
		r.run(6*time.Second, settler.Options{})
		var lags []time.Duration
		for _, late := range r.lags {
			lags = append(lags, late.Truncate(time.Second))
		}
		slices.Sort(lags)
		if got := fmt.Sprint(lags); got != "[0s 3s 6s]" { // the last one at the end
			t.Errorf("lags %s, want [0s 3s 6s]", got)
		}
	})
}
