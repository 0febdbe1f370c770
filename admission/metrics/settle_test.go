package metrics

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/test/prom"
)

func TestTheLagOfTheSettlerIsInSeconds(t *testing.T) {
	t.Parallel()
	m := New("devel")
	observe := m.Settle.Of("redis")
	observe(settler.Try{Result: "written", Late: 1500 * time.Millisecond})
	observe(settler.Try{Result: "failed"})
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "eventquota_settle_lag_seconds" {
			if sum := f.GetMetric()[0].GetHistogram().GetSampleSum(); sum != 1.5 {
				t.Errorf("%v s, want 1.5", sum)
			}
		}
	}
}

func TestWhatIsPendingIsShownWhileItIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := New("devel")
		queue := &pendingOnly{}
		queue.set(3, nil)
		ctx, stop := context.WithCancel(t.Context())
		var shows sync.WaitGroup
		shows.Go(func() { m.Settle.ShowPending(ctx, "redis", queue, time.Second) })
		shown := func(want ...string) {
			t.Helper()
			synctest.Wait()
			prom.Want(t, m.Gatherer, "eventquota_settle_pending", want...)
		}
		shown(`{store="redis"} 3`)
		queue.set(7, nil)
		<-time.After(pendingEvery)
		shown(`{store="redis"} 7`)
		queue.set(0, errors.New("unavailable"))
		<-time.After(pendingEvery)
		shown()
		queue.set(7, nil)
		<-time.After(pendingEvery)
		shown(`{store="redis"} 7`)
		stop()
		shows.Wait()
		shown() // another replica settles now
	})
}

// pendingOnly is a store that says what the test says of what is pending.
type pendingOnly struct {
	store.Queue

	mu     sync.Mutex
	answer int64
	err    error
}

func (q *pendingOnly) set(answer int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answer, q.err = answer, err
}

func (q *pendingOnly) Pending(context.Context) (int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.answer, q.err
}
