package settler_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

func TestADrainFailsWhenSomethingIsStillPending(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		breaks func(*rig)
		o      settler.Options
		want   string
	}{
		"the API server stays unavailable": {
			func(r *rig) { r.answer = func(*request) error { return errRefused } },
			settler.Options{},
			"2 or more writes are still pending after a drain of 15s",
		},
		"the API server stays unavailable, and the drain is short": {
			func(r *rig) { r.answer = func(*request) error { return errRefused } },
			settler.Options{DrainTimeout: time.Second},
			"2 or more writes are still pending after a drain of 1s",
		},
		"the store does not answer": {
			func(r *rig) { r.queue.claims = 1 << 20 },
			settler.Options{},
			"1 or more writes are still pending after a drain of 15s",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.queue.writes = []store.PendingWrite{r.pending("a"), r.pending("b")}
				tt.breaks(r)
				err := r.settle(r.queue, time.Minute, tt.o)
				if err == nil || err.Error() != tt.want {
					r.Errorf("error %v, want %s", err, tt.want)
				}
				drain := tt.o.DrainTimeout
				if drain == 0 {
					drain = 15 * time.Second
				}
				if took := time.Since(r.began); took != time.Minute+drain {
					r.Errorf("ended after %v, want %v", took, time.Minute+drain)
				}
			})
		})
	}
}

func TestOfASharedStoreOnlyWhatIsClaimedIsDrained(t *testing.T) {
	bubble(t, func(r *rig) {
		r.queue.writes = []store.PendingWrite{r.pending("a"), r.pending("b", func(p *store.PendingWrite) { p.Due = time.Now().Add(time.Hour) })}
		r.answer = func(q *request) error {
			if q.after < time.Minute {
				return errRefused
			}
			return nil
		}
		r.run(time.Minute, settler.Options{Shared: true})
		if want := []string{"a written"}; !slices.Equal(r.queue.came, want) {
			r.Errorf("came %v, want %v", r.queue.came, want)
		}
	})
}

// TestASharedStoreThatIsUnavailableIsNotWaitedFor holds that what is claimed of it is left to the next
// replica: it is pending in the store still.
func TestASharedStoreThatIsUnavailableIsNotWaitedFor(t *testing.T) {
	bubble(t, func(r *rig) {
		r.queue.writes = []store.PendingWrite{r.pending("a")}
		var unavailable atomic.Bool
		r.answer = func(*request) error {
			unavailable.Store(true)
			return errRefused
		}
		r.run(time.Minute, settler.Options{Shared: true, Available: func() bool { return !unavailable.Load() }})
		if took := time.Since(r.began); took != time.Minute || len(r.queue.came) > 0 {
			r.Errorf("ended after %v with %v, want 1m0s and nothing completed", took, r.queue.came)
		}
	})
}

func TestASettlerThatAbandonsWritesNoMore(t *testing.T) {
	bubble(t, func(r *rig) {
		r.queue.writes = []store.PendingWrite{r.pending("a"), r.pending("b"), r.pending("c")}
		abandon := make(chan struct{})
		r.answer = func(q *request) error {
			if q.n == 3 {
				close(abandon)
			}
			return errRefused // so that all are tried again
		}
		r.run(time.Hour, settler.Options{Abandon: abandon, Workers: 1})
		if took := time.Since(r.began); took > time.Second {
			r.Errorf("ended after %v, want at once", took)
		}
		if len(r.requests) != 3 {
			r.Errorf("did %v, want 3 requests", r.did())
		}
	})
}

// TestTheLagIsTheTimeSinceAWriteFellDue holds that it is reported once for each write that the API
// server took, with the time that retries took.
func TestTheLagIsTheTimeSinceAWriteFellDue(t *testing.T) {
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
			if q.says == "patch default/retried" && q.after < 4*time.Second {
				return errRefused
			}
			return nil
		}
		r.run(6*time.Second, settler.Options{Workers: 1})
		var lags []time.Duration
		for _, late := range r.late {
			lags = append(lags, late.Truncate(time.Second))
		}
		slices.Sort(lags)
		if got := fmt.Sprint(lags); got != "[0s 3s 5s]" {
			t.Errorf("lags %s, want [0s 3s 5s]", got)
		}
	})
}
