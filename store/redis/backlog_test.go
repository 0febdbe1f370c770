package redis_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/redis"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestStopHandsOverAttemptsInFlight stops a replica while Redis does not answer. The replica waits for the attempt under
// way and hands its decisions to OnUnreported, so none is lost.
func TestStopHandsOverAttemptsInFlight(t *testing.T) {
	const merged = 5
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	var silent atomic.Bool
	var unreported int64
	s := redis.New(caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		if silent.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return client.Call(ctx, cmds...)
	}), redis.Options{Prefix: "test:", OnUnreported: func(_ time.Time, _ string, _ store.Key, d *engine.Drops) { unreported += d.Total }})
	l := limits(10)
	decide(t, s, eventWrite("pod", "m", 0), l)
	silent.Store(true)
	for n := range merged {
		s.DecideLocally(eventWrite("pod", "m", 1+n), l)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx)
	if unreported != merged || !s.Idle() || s.Waiting() != 0 {
		t.Errorf("%d occurrences handed over, idle %t, %d registers waiting; want %d, true, 0", unreported, s.Idle(), s.Waiting(), merged)
	}
}

// newInterruptibleStore returns a replica whose calls fail while down is set. It adds unreported occurrences to unreported.
func newInterruptibleStore(t *testing.T, down *atomic.Bool, unreported *int64) *redis.Store {
	t.Helper()
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	return redis.New(caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		if down.Load() {
			return errRefused
		}
		return client.Call(ctx, cmds...)
	}), redis.Options{
		Prefix: "test:", StepTimeout: longTimeout,
		OnUnreported: func(_ time.Time, _ string, _ store.Key, d *engine.Drops) { *unreported += d.Total },
	})
}

// TestBacklogIsBoundedInBytes decides Events with long texts without Redis. The backlog stays within its bound, and no decision
// is lost.
func TestBacklogIsBoundedInBytes(t *testing.T) {
	const objects, each, long, most = 64, 64, 128 << 10, 160 << 20
	var down atomic.Bool
	var unreported int64
	s := newInterruptibleStore(t, &down, &unreported)
	text := strings.Repeat("x", long)
	l, wanted := limits(1<<20), int64(0)
	l.SimilarThreshold = 1 << 20
	down.Store(true)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range objects * each {
		w := eventWrite(fmt.Sprint("pod-", n%objects), fmt.Sprint(n/objects/16), n)
		w.Text, w.Reason, w.InvolvedObject.UID = text, text, text
		if n%2 == 1 { // is joined with no other
			w.Name, w.Count = w.Name+text[:200], 2
		}
		if d := s.DecideLocally(w, l); !d.Verdict.Admits() {
			wanted += d.Occurrences
		}
		if n%1000 == 0 {
			s.SpillExcess()
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > most {
		t.Errorf("%d MiB used, want at most %d", used>>20, most>>20)
	}
	down.Store(false)
	for s.Waiting() > 0 {
		s.Flush(t.Context())
	}
	got := unreported
	for _, p := range claimAll(t, s) {
		got += p.Unreported()
	}
	t.Logf("%d MiB used, %d occurrences, of which %d were handed over", (after.HeapAlloc-before.HeapAlloc)>>20, wanted, unreported)
	if got < wanted || unreported > 0 {
		t.Errorf("%d of %d occurrences reported, of which %d were handed over because they did not fit", got, wanted, unreported)
	}
}

// TestFullBacklogGoesToUnreported fills the backlog. The decisions that do not fit go to OnUnreported, from the namespace
// with the most.
func TestFullBacklogGoesToUnreported(t *testing.T) {
	const bytes, decisions = 256 << 10, 2000
	handed := map[string]int64{}
	s := redis.New(caller(func(context.Context, ...goredis.Cmder) error { return errRefused }), redis.Options{
		Prefix:       "test:",
		OnUnreported: func(_ time.Time, namespace string, _ store.Key, d *engine.Drops) { handed[namespace] += d.Total },
	}).SetCacheBytes(64<<20, bytes)
	l := limits(0)
	for n := range decisions {
		w := eventWrite(fmt.Sprint("pod-", n), "m", n)
		if w.Namespace = "busy"; n%100 == 0 {
			w.Namespace = "quiet"
		}
		s.DecideLocally(w, l)
	}
	s.SpillExcess()
	if waiting := s.Waiting(); handed["busy"]+int64(waiting) != decisions || handed["quiet"] > 0 || waiting == 0 || waiting > bytes/1024 {
		t.Errorf("%v handed over and %d waiting of %d", handed, waiting, decisions)
	}
}
