package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheLagOfTheSettlerIsInSeconds(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	m.settle.lagOf("redis")(1500 * time.Millisecond)
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

func TestWhatIsOwedIsShownWhileItIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics()
		owes := &owes{}
		owes.set(3, nil)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.settle.of("redis", owes, time.Second).Run(ctx) }()
		shown := func(want ...string) {
			t.Helper()
			synctest.Wait()
			wantLines(t, m, "eventquota_settle_pending", want...)
		}
		shown(`{store="redis"} 3`)
		owes.set(7, nil)
		<-time.After(pendingEvery)
		shown(`{store="redis"} 7`)
		owes.set(0, errors.New("away"))
		<-time.After(pendingEvery)
		shown()
		owes.set(7, nil)
		<-time.After(pendingEvery)
		shown(`{store="redis"} 7`)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		shown() // another replica settles now
	})
}

// owes is a store that owes what the test says.
type owes struct {
	mu     sync.Mutex
	answer int64
	err    error
}

func (o *owes) set(answer int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer, o.err = answer, err
}

func (o *owes) Owed(context.Context) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answer, o.err
}
