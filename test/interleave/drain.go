package interleave

import (
	"context"
	"math"
	"slices"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
)

// now returns the time of the simulation.
func (w *world) now() time.Time { return time.Now() }

// runUntil executes and answers all operations in turn until a condition holds. It reports whether that happens within a time.
func (w *world) runUntil(within time.Duration, until func() bool) bool {
	deadline := w.now().Add(within)
	for busy, at := 0, w.now(); ; busy++ {
		synctest.Wait()
		live := w.ops.live()
		if !w.now().Equal(at) {
			busy, at = 0, w.now()
		}
		if busy > maxRounds {
			w.reportViolation(kindStuck, "%d rounds without any time passing: %s", busy, live[0].id)
			w.cutRedis()
			return false
		}
		if len(live) == 0 {
			if until() {
				return true
			}
			if w.now().After(deadline) {
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

// maxRounds is larger than any number of rounds that is needed if all operations end.
const maxRounds = 2000

// cutRedis cuts all connections to Redis and refuses new ones.
func (w *world) cutRedis() {
	for _, r := range w.replicas {
		r.redisLink = redisRefuses
	}
	for _, o := range w.ops.live() {
		w.ops.answer(o, errCut)
	}
}

// runToEnd calls a function that submits operations, and reports whether it returns within a time.
func (w *world) runToEnd(within time.Duration, run func()) bool {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run()
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

// stopFaults ends all faults and the terms of all settlers.
func (w *world) stopFaults() {
	w.moved()
	w.faultsStopped = true
	for _, r := range w.replicas {
		if r.stopped && r.unreachable() {
			r.unanswered = math.MaxInt / 2
		}
		r.redisLink = redisAnswers
	}
	for _, l := range w.leaders {
		if !l.ending {
			l.end("ends")
		}
	}
}

// idle reports whether all clients and settlers have finished.
func (w *world) idle() bool {
	return !slices.ContainsFunc(w.eventClients, func(s *eventClient) bool { return s.busy }) &&
		!slices.ContainsFunc(w.leaders, func(l *leader) bool { return !l.over() })
}

// end ends all faults and waits until all clients have finished. Then it stops the replicas, writes all pending counts, and checks the
// invariants.
func (w *world) end() {
	w.stopFaults()
	// The milliseconds keep the drain timeout out of step with the pauses of a settler.
	longest, drainTimeout := 2*time.Minute, 10*time.Minute+13*time.Millisecond
	if w.mix.Junk { // the unreadable register stays pending
		longest, drainTimeout = 5*time.Second, time.Second+13*time.Millisecond
	}
	if !w.runUntil(2*time.Minute, w.idle) {
		w.reportViolation(kindStuck, "a client or a settler does not finish after all faults have ended")
	}
	settled := w.now().Add(3 * time.Second)
	ok := w.runUntil(longest, func() bool {
		backlog := 0
		for _, r := range w.replicas {
			if !r.stopped {
				backlog += r.backlog()
			}
		}
		return backlog == 0 && w.now().After(settled)
	})
	if !ok && !w.mix.Junk {
		w.reportViolation(kindStuck, "a backlog is not empty after all faults have ended")
	}
	w.stopAll()
	last := w.newReplica("the last replica", false)
	if !w.mix.PartialLoss && !w.mix.Junk {
		w.runToEnd(time.Minute, func() { w.checkIndex(last) })
	}
	w.drain(last, drainTimeout)
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
		w.reportViolation(kindStuck, "a replica does not stop")
	}
}

// drain writes all pending counts.
func (w *world) drain(by *replica, within time.Duration) {
	l := &leader{name: "the last settler", replica: by, ending: true, ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := l.settler(settler.Options{DrainTimeout: func() time.Duration { return within }, Available: func() bool { return true }})
	w.runToEnd(20*time.Minute, func() {
		if err := s.Run(ctx); err != nil && !w.mix.Junk {
			w.reportViolation(kindStuck, "the last settler: %v", err)
		}
	})
	w.runToEnd(time.Minute, func() {
		if n, err := by.store.Pending(context.Background()); (err != nil || n > 0) && !w.mix.Junk {
			w.reportViolation(kindNeedlessDue, "%d registers are pending after the last settler, error %v", n, err)
		}
	})
}
