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
	observe(settler.Try{Result: "given_up", Lost: 2})
	prom.Want(t, m.Gatherer, "eventquota_settle_given_up_total", "{} 2")
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if sum := f.GetMetric()[0].GetHistogram().GetSampleSum(); f.GetName() == "eventquota_settle_lag_seconds" && sum != 1.5 {
			t.Errorf("%v s, want 1.5", sum)
		}
	}
}

func TestWhatIsPendingIsShownWhileItIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := New("devel")
		queue := &pendingOnly{answers: []int64{3, 7, -1, 7, 7}}
		ctx, stop := context.WithCancel(t.Context())
		var shows sync.WaitGroup
		shows.Go(func() { m.Settle.ShowPending(ctx, "redis", queue, time.Second) })
		shown := func(want ...string) {
			t.Helper()
			synctest.Wait()
			prom.Want(t, m.Gatherer, "eventquota_settle_pending", want...)
		}
		for _, want := range [][]string{{`{store="redis"} 3`}, {`{store="redis"} 7`}, nil, {`{store="redis"} 7`}} {
			shown(want...)
			<-time.After(pendingEvery)
		}
		stop()
		shows.Wait()
		shown() // another replica settles now
	})
}

// pendingOnly is a store that says the next of what the test says of what is pending, or fails.
type pendingOnly struct {
	store.Queue

	answers []int64 // -1 for an error
}

func (q *pendingOnly) Pending(context.Context) (int64, error) {
	n := q.answers[0]
	q.answers = q.answers[1:]
	if n < 0 {
		return 0, errors.New("unavailable")
	}
	return n, nil
}
