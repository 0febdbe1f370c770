package redis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/fallback"
	"github.com/eventquota/eventquota/store/redis"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// timedStore is a replica whose calls must not fail before their deadline.
type timedStore struct {
	*redis.Store

	t        *testing.T
	answered atomic.Int64
}

// Decide implements store.Store.
func (s *timedStore) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	d, err := s.Store.Decide(ctx, now, w, l)
	if err == nil {
		s.answered.Add(1)
	} else if ctx.Err() == nil {
		s.t.Errorf("Decide failed before its deadline: %v", err)
	}
	return d, err
}

// TestLostSegmentDelaysNoOtherCall loses one segment in a hundred, each way, and sends it again after every call has
// returned. No call waits longer than its own deadline, whether the segment is its own or that of another group on the
// same connection. After the segments have arrived, each call counts once.
func TestLostSegmentDelaysNoOtherCall(t *testing.T) {
	const rounds, callers, each, objects = 6, 32, 60, 1000
	proxy := redistest.StartProxy(t, redistest.Start(t, redistest.Options{}).Addr())
	s := &timedStore{t: t, Store: redis.New(connect(t, proxy.Addr().String()), redis.Options{
		Prefix: "test:", StepTimeout: longTimeout, OnUnreported: func(_ time.Time, _ string, _ store.Key, d *engine.Drops) {
			t.Errorf("%d occurrences were not reported", d.Total)
		},
	})}
	decides, count, l := fallback.New(s, s, fallback.Defaults()), newTallies(), withQuota(limits(1<<20), quota(1<<20))
	var lost, calls atomic.Int64
	round := func() {
		again := make(chan struct{})
		sendAgain := sync.OnceFunc(func() { close(again) })
		defer sendAgain()
		proxy.DropEvery(100, func() {
			lost.Add(1)
			<-again
		})
		defer proxy.DropEvery(0, nil)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range each {
					i := int(calls.Add(1))
					object := fmt.Sprint("pod-", i%objects)
					d, err := decides.Decide(t.Context(), time.Now(), eventWrite(object, fmt.Sprint(i/objects%3), i), l)
					count.add(object, d, err)
				}
			})
		}
		stuck := time.AfterFunc(longTimeout, func() {
			t.Error("calls wait for lost segments")
			sendAgain()
		})
		defer stuck.Stop()
		wg.Wait()
	}
	for range rounds {
		if round(); t.Failed() {
			return
		}
		for !s.Idle() {
			<-time.After(time.Millisecond)
		}
	}
	for s.Waiting() > 0 {
		s.Flush(t.Context())
	}
	t.Logf("%d segments lost, %d of %d calls answered in time", lost.Load(), s.answered.Load(), calls.Load())
	if lost.Load() < rounds || s.answered.Load() == 0 {
		t.Errorf("%d segments lost and %d calls answered, want some of both", lost.Load(), s.answered.Load())
	}
	count.check(t, s)
}
