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

func TestSettlerLagIsInSeconds(t *testing.T) {
	t.Parallel()
	m := New("devel")
	observe := m.Settler.ObserverFor("redis")
	observe(settler.Attempt{Result: "written", Lag: 1500 * time.Millisecond})
	observe(settler.Attempt{Result: "given_up", Lost: 2})
	prom.Want(t, m.Gatherer, "eventquota_settler_lost_occurrences_total", "{} 2")
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if sum := f.GetMetric()[0].GetHistogram().GetSampleSum(); f.GetName() == "eventquota_settler_write_lag_seconds" && sum != 1.5 {
			t.Errorf("got a lag of %v s, want 1.5", sum)
		}
	}
}

func TestPendingGaugeFollowsTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := New("devel")
		queue := &fakePending{answers: []int64{3, 7, -1, 7, 7}}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { m.Settler.WatchPending(ctx, "redis", queue, time.Second) })
		wantGauge := func(want ...string) {
			t.Helper()
			synctest.Wait()
			prom.Want(t, m.Gatherer, "eventquota_settler_pending", want...)
		}
		for _, want := range [][]string{{`{store="redis"} 3`}, {`{store="redis"} 7`}, nil, {`{store="redis"} 7`}} {
			wantGauge(want...)
			<-time.After(pendingInterval)
		}
		stop()
		running.Wait()
		wantGauge() // this replica is not the leader any more
	})
}

// fakePending is a queue whose Pending returns the given answers in order.
type fakePending struct {
	store.Queue

	answers []int64 // -1 for an error
}

func (q *fakePending) Pending(context.Context) (int64, error) {
	n := q.answers[0]
	q.answers = q.answers[1:]
	if n < 0 {
		return 0, errors.New("unavailable")
	}
	return n, nil
}
