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

// drive lets all go on, each op in its turn, until something holds. It reports whether that comes about within a time.
func (w *world) drive(within time.Duration, until func() bool) bool {
	by := w.now().Add(within)
	for busy, at := 0, w.now(); ; busy++ {
		synctest.Wait()
		live := w.ops.live()
		if !w.now().Equal(at) {
			busy, at = 0, w.now()
		}
		if busy > endless {
			w.violated(stuck, "%d rounds without an end and without time that passes: %s", busy, live[0].id)
			w.giveUp()
			return false
		}
		if len(live) == 0 {
			if until() {
				return true
			}
			if w.now().After(by) {
				return false
			}
			w.pass(min(max(50*time.Millisecond, within/100), time.Second))
		}
		for _, o := range live {
			w.forwarded(o)
			w.ops.forward(o)
		}
	}
}

// endless is how many rounds nobody needs who comes to an end.
const endless = 2000

// giveUp lets nobody reach Redis any more.
func (w *world) giveUp() {
	for _, r := range w.replicas {
		r.reach = refuses
	}
	for _, o := range w.ops.live() {
		w.ops.answer(o, errCut)
	}
}

// do runs something that asks, to its end.
func (w *world) do(within time.Duration, something func()) bool {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		something()
	}()
	return w.drive(within, func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}

// cease ends all faults, and tells settlers to end.
func (w *world) cease() {
	w.moved()
	w.ceased = true
	for _, r := range w.replicas {
		if r.stopped && r.away() {
			r.missed = math.MaxInt / 2
		}
		r.reach = answers
	}
	for _, l := range w.leaders {
		if !l.left {
			l.end("ends")
		}
	}
}

// idle reports whether no client and no settler is at work.
func (w *world) idle() bool {
	return !slices.ContainsFunc(w.speakers, func(s *speaker) bool { return s.busy }) &&
		!slices.ContainsFunc(w.leaders, func(l *leader) bool { return !l.over() })
}

// end lets all faults cease, everybody finish, and a settler write all there is, and checks what must hold then.
func (w *world) end() {
	w.cease()
	// With which no pause of a settler is in step.
	long, drains := 2*time.Minute, 10*time.Minute+13*time.Millisecond
	if w.mix.Junk { // the register that cannot be read stays pending
		long, drains = 5*time.Second, time.Second+13*time.Millisecond
	}
	if !w.drive(2*time.Minute, w.idle) {
		w.violated(stuck, "a client or a settler is at work after all faults have ceased")
	}
	settled := w.now().Add(3 * time.Second)
	ok := w.drive(long, func() bool {
		waits := 0
		for _, r := range w.replicas {
			if !r.stopped {
				waits += r.waits()
			}
		}
		return waits == 0 && w.now().After(settled)
	})
	if !ok && !w.mix.Junk {
		w.violated(stuck, "a report waits for Redis after all faults have ceased")
	}
	w.stopAll()
	last := w.newReplica("the last replica", false)
	if !w.mix.PartialLoss && !w.mix.Junk {
		w.do(time.Minute, func() { w.checkIndex(last) })
	}
	w.drain(last, drains)
	if !w.mix.Failover && !w.mix.PartialLoss && !w.mix.ClockJumps && !w.mix.Junk {
		w.do(time.Minute, func() { w.checkTokens(last) })
	}
	w.checkCounts()
	w.checkReasons()
	if w.mix.Junk {
		w.checkHidden()
	}
	last.stop()
}

// stopAll stops the replicas.
func (w *world) stopAll() {
	for _, r := range w.replicas {
		r.stopped = true
		r.stop()
	}
	ok := w.drive(time.Minute, func() bool {
		for _, r := range w.replicas {
			if !r.over() {
				return false
			}
		}
		return true
	})
	if !ok {
		w.violated(stuck, "a replica does not stop")
	}
}

// drain settles all that is pending.
func (w *world) drain(by *replica, within time.Duration) {
	l := &leader{name: "the last settler", replica: by, left: true, ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := l.settler(settler.Options{DrainTimeout: within, Available: func() bool { return true }})
	w.do(20*time.Minute, func() {
		if err := s.Run(ctx); err != nil && !w.mix.Junk {
			w.violated(stuck, "the last settler: %v", err)
		}
	})
	w.do(time.Minute, func() {
		if n, err := by.store.Pending(context.Background()); (err != nil || n > 0) && !w.mix.Junk {
			w.violated(vain, "%d are pending once all is settled, error %v", n, err)
		}
	})
}
