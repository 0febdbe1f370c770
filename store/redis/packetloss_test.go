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

// timedStore is a replica none of whose calls fails before its time is up.
type timedStore struct {
	*redis.Store

	t        *testing.T
	answered atomic.Int64
}

// Decide implements store.Store.
func (p *timedStore) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	d, err := p.Store.Decide(ctx, now, w, l)
	if err == nil {
		p.answered.Add(1)
	} else if ctx.Err() == nil {
		p.t.Errorf("Decide fails before its time is up: %v", err)
	}
	return d, err
}

// One segment in a hundred is lost, each way, and is sent again only once every call has returned: nobody waits for a segment
// longer than its own deadline, whether it is its own or that of another group on the same connection. Once the segments have
// come each call counts once.
func TestLostSegmentDelaysNoOtherCall(t *testing.T) {
	const rounds, callers, each, objects = 6, 32, 60, 1000
	way := redistest.StartProxy(t, redistest.Start(t, redistest.Options{}).Addr())
	s := &timedStore{t: t, Store: redis.New(connect(t, way.Addr().String()), redis.Options{
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
		way.DropEvery(100, func() {
			lost.Add(1)
			<-again
		})
		defer way.DropEvery(0, nil)
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for range each {
					i := int(calls.Add(1))
					object := fmt.Sprint("pod-", i%objects)
					d, err := decides.Decide(t.Context(), time.Now(), eventWrite(object, fmt.Sprint(i/objects%3), i), l)
					count.add(object, d, err)
				}
			})
		}
		stuck := time.AfterFunc(longTimeout, func() {
			t.Error("calls wait for segments that are lost")
			sendAgain()
		})
		defer stuck.Stop()
		all.Wait()
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
	t.Logf("%d segments were lost, and %d of %d calls were answered in time", lost.Load(), s.answered.Load(), calls.Load())
	if lost.Load() < rounds || s.answered.Load() == 0 {
		t.Errorf("%d segments were lost and %d calls answered, want some", lost.Load(), s.answered.Load())
	}
	count.check(t, s)
}
