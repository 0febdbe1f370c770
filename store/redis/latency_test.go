package redis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/fallback"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// deadline is longer than that of a webhook call, as the machine may be busy.
const deadline = 10 * time.Second

// TestSlowReplicaIsNotStarved has three replicas write to one register under one quota without a pause. One of them is
// farther from Redis. It still gets its turn: its circuit breaker stays closed, and it makes no local decision.
func TestSlowReplicaIsNotStarved(t *testing.T) {
	const callers, wanted = 4, 15
	server := redistest.Start(t, redistest.Options{})
	far := redistest.StartProxy(t, server.Addr())
	far.Delay(2 * time.Millisecond)
	var replicas []*fallback.Store
	for i, address := range []string{server.Addr(), server.Addr(), far.Addr().String()} {
		o := fallback.Defaults()
		o.Deadline = deadline
		o.OnFallback = func(context.Context, store.FailureMode) { t.Errorf("replica %d decided locally", i) }
		breaker := redisclient.NewBreaker(connect(t, address), redisclient.BreakerOptions{
			Deadline: deadline, OnChange: func(_ bool, err error) { t.Errorf("replica %d: the breaker opened: %v", i, err) },
		})
		o.Available = breaker.Closed
		shared := redis.New(breaker, redis.Options{Prefix: "test:", StepTimeout: deadline})
		replicas = append(replicas, fallback.New(shared, shared, o))
	}
	l := limits(1 << 20)
	l.Quotas = []store.Bucket{quota(1 << 20)}
	var done [3]atomic.Int64
	var wg sync.WaitGroup
	for i, s := range replicas {
		for c := range callers {
			wg.Go(func() {
				for n := 0; done[2].Load() < callers*wanted && !t.Failed(); n++ {
					w := eventWrite("pod", fmt.Sprint("message ", i, c, n), n)
					w.Name = fmt.Sprint(i, ".", c, ".", n)
					if _, err := s.Decide(t.Context(), time.Now(), w, l); err != nil {
						t.Errorf("replica %d: %v", i, err)
					}
					done[i].Add(1)
				}
			})
		}
	}
	wg.Wait()
	for i := range done {
		t.Logf("replica %d decided %d writes", i, done[i].Load())
		if done[i].Load() == 0 {
			t.Errorf("replica %d decided nothing", i)
		}
	}
}

// TestCallWaitsUntilCallerDeadline makes conflicts until the caller's deadline. The call waits that long, as a decision
// by an old register would give the last tokens twice.
func TestCallWaitsUntilCallerDeadline(t *testing.T) {
	const burst, timeout, ahead = 3, time.Second, 1500 * time.Millisecond
	server := redistest.Start(t, redistest.Options{})
	near, l := newStore(t, connect(t, server.Addr())), limits(burst)
	admitted, n := 0, 0
	write := func(s *redis.Store, message string) {
		n++
		if decide(t, s, eventWrite("pod", message, n), l).Verdict == store.Admit {
			admitted++
		}
	}
	takeAll := func() {
		for i := range burst {
			write(near, fmt.Sprint("other ", i))
		}
	}
	write(near, "same")
	far := hookedCaller{connect(t, server.Addr()), make(chan func(func() error) error, 1)}
	begun := time.Now()
	var behind func(call func() error) error
	behind = func(call func() error) error {
		if time.Since(begun) > ahead {
			takeAll()
			return call()
		}
		write(near, "same") // takes no token, but makes a conflict
		far.hooks <- behind
		return call()
	}
	far.hooks <- behind
	write(redis.New(far, redis.Options{Prefix: "test:", StepTimeout: timeout}), "far")
	takeAll()
	if admitted != burst {
		t.Errorf("%d Events admitted, want %d", admitted, burst)
	}
}

// skewed is a clock that is wrong, and that tests step.
type skewed struct{ by atomic.Int64 }

func (s *skewed) now() time.Time { return time.Now().Add(time.Duration(s.by.Load())) }

// TestReplicasWithSkewedClocks has replicas whose clocks are wrong and step. Only the clock of Redis counts, so together
// they give as many tokens as one bucket has.
func TestReplicasWithSkewedClocks(t *testing.T) {
	const burst, objects = 100, 40
	server := redistest.Start(t, redistest.Options{})
	clocks := []*skewed{{}, {}, {}}
	var replicas []*redis.Store
	for i, c := range clocks {
		c.by.Store(int64(time.Duration(7*(i-1)) * time.Hour))
		replicas = append(replicas, redis.New(connect(t, server.Addr()), redis.Options{Prefix: "test:", Now: c.now, StepTimeout: longTimeout}))
	}
	tests := map[string]struct {
		limits store.Limits
		object func(i int) string
		want   int64
	}{
		"one quota over many objects":   {withQuota(limits(1<<20), quota(burst)), func(i int) string { return fmt.Sprint("a-", i%objects) }, burst},
		"the spam filter of one object": {limits(burst), func(int) string { return "b" }, burst},
		"the spam filters of many":      {limits(burst / objects), func(i int) string { return fmt.Sprint("c-", i%objects) }, burst / objects * objects},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var admitted atomic.Int64
			test.limits.SimilarThreshold = 1 << 20
			var wg sync.WaitGroup
			for c := range 6 {
				wg.Go(func() {
					for n := range 200 {
						i := c + 6*n
						if n%50 == 25 {
							clocks[c%3].by.Add(int64(time.Duration(5-i%11) * time.Hour))
						}
						w := eventWrite(test.object(i), fmt.Sprint("message ", i), i)
						ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
						d, err := replicas[c%3].Decide(ctx, time.Now(), w, test.limits)
						cancel()
						if err != nil {
							t.Errorf("Decide: %v", err)
						}
						if d.Verdict == store.Admit {
							admitted.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if admitted.Load() != test.want {
				t.Errorf("%d admitted, want %d", admitted.Load(), test.want)
			}
		})
	}
}

func withQuota(l store.Limits, b store.Bucket) store.Limits {
	l.Quotas = append(l.Quotas, b)
	return l
}

// TestAbandonedCallsAreNotSent abandons reads that Redis answers much later. Reading the result of such a command would
// wait for its answer, so the store must not.
func TestAbandonedCallsAreNotSent(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := redis.New(connect(t, server.Addr()), redis.Options{Prefix: "test:"})
	if err := errors.Join(s.Probe(t.Context()), server.Pause()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 8 { // so that they share connections
		wg.Go(func() {
			if err := s.Probe(ctx); err == nil {
				t.Error("Probe of a paused server succeeded")
			}
		})
	}
	wg.Wait()
	if err := errors.Join(server.Resume(), s.Probe(t.Context())); err != nil {
		t.Fatal(err)
	}
}
