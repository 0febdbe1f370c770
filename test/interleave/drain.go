package interleave

import (
	"context"
	"math"
	"slices"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
)

// now is the time of the simulation.
func (w *world) now() time.Time { return time.Now() }

// runUntil lets all go on, each op in its turn, until something holds. It reports whether that comes about within a time.
func (w *world) runUntil(within time.Duration, until func() bool) bool {
	by := w.now().Add(within)
	for busy, at := 0, w.now(); ; busy++ {
		synctest.Wait()
		live := w.ops.live()
		if !w.now().Equal(at) {
			busy, at = 0, w.now()
		}
		if busy > endTimeout {
			w.violated(kindStuck, "%d rounds without an end and without time that passes: %s", busy, live[0].id)
			w.cutRedis()
			return false
		}
		if len(live) == 0 {
			if until() {
				return true
			}
			if w.now().After(by) {
				return false
			}
			w.advanceTime(min(max(50*time.Millisecond, within/100), time.Second))
		}
		for _, o := range live {
			w.onForward(o)
			w.ops.forward(o)
		}
	}
}

// endTimeout is how many rounds nobody needs who comes to an end.
const endTimeout = 2000

// cutRedis lets nobody reach Redis any more.
func (w *world) cutRedis() {
	for _, r := range w.replicas {
		r.reach = redisRefuses
	}
	for _, o := range w.ops.live() {
		w.ops.answer(o, errCut)
	}
}

// runToEnd runs something that asks, to its end.
func (w *world) runToEnd(within time.Duration, something func()) bool {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		something()
	}()
	return w.runUntil(within, func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}

// stopFaults ends all faults, and tells settlers to end.
func (w *world) stopFaults() {
	w.moved()
	w.faultsStopped = true
	for _, r := range w.replicas {
		if r.stopped && r.unreachable() {
			r.missed = math.MaxInt / 2
		}
		r.reach = redisAnswers
	}
	for _, l := range w.leaders {
		if !l.left {
			l.end("ends")
		}
	}
}

// idle reports whether no client and no settler is at work.
func (w *world) idle() bool {
	return !slices.ContainsFunc(w.eventClients, func(s *eventClient) bool { return s.busy }) &&
		!slices.ContainsFunc(w.leaders, func(l *leader) bool { return !l.over() })
}

// end lets all faults cease, everybody finish, and a settler write all there is, and checks what must hold then.
func (w *world) end() {
	w.stopFaults()
	// With which no pause of a settler is in step.
	long, drains := 2*time.Minute, 10*time.Minute+13*time.Millisecond
	if w.mix.Junk { // the register that cannot be read stays pending
		long, drains = 5*time.Second, time.Second+13*time.Millisecond
	}
	if !w.runUntil(2*time.Minute, w.idle) {
		w.violated(kindStuck, "a client or a settler is at work after all faults have ceased")
	}
	settled := w.now().Add(3 * time.Second)
	ok := w.runUntil(long, func() bool {
		waits := 0
		for _, r := range w.replicas {
			if !r.stopped {
				waits += r.waits()
			}
		}
		return waits == 0 && w.now().After(settled)
	})
	if !ok && !w.mix.Junk {
		w.violated(kindStuck, "a report waits for Redis after all faults have ceased")
	}
	w.stopAll()
	last := w.newReplica("the last replica", false)
	if !w.mix.PartialLoss && !w.mix.Junk {
		w.runToEnd(time.Minute, func() { w.checkIndex(last) })
	}
	w.drain(last, drains)
	if !w.mix.Failover && !w.mix.PartialLoss && !w.mix.ClockJumps && !w.mix.Junk {
		w.runToEnd(time.Minute, func() { w.checkTokens(last) })
	}
	w.checkCounts()
	w.checkReasons()
	if w.mix.Junk {
		w.checkUnreadable()
	}
	last.stop()
}

// stopAll stops the replicas.
func (w *world) stopAll() {
	for _, r := range w.replicas {
		r.stopped = true
		r.stop()
	}
	ok := w.runUntil(time.Minute, func() bool {
		for _, r := range w.replicas {
			if !r.over() {
				return false
			}
		}
		return true
	})
	if !ok {
		w.violated(kindStuck, "a replica does not stop")
	}
}

// drain settles all that is pending.
func (w *world) drain(by *replica, within time.Duration) {
	l := &leader{name: "the last settler", replica: by, left: true, ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := l.settler(settler.Options{DrainTimeout: within, Available: func() bool { return true }})
	w.runToEnd(20*time.Minute, func() {
		if err := s.Run(ctx); err != nil && !w.mix.Junk {
			w.violated(kindStuck, "the last settler: %v", err)
		}
	})
	w.runToEnd(time.Minute, func() {
		if n, err := by.store.Pending(context.Background()); (err != nil || n > 0) && !w.mix.Junk {
			w.violated(kindNeedlessDue, "%d are pending once all is settled, error %v", n, err)
		}
	})
}
