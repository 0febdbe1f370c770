package interleave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/fallback"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
)

// subject is a store as far as the simulation sees it.
type subject interface {
	store.Store
	store.Queue
	Peek(ctx context.Context, groups, levels []store.Key) (engine.Snapshot, error)
}

// deadline is how long a decision may take.
const deadline = 50 * time.Millisecond

// replica is one process of the webhook.
type replica struct {
	name    string
	world   *world
	store   subject
	decides store.Store
	// available reports whether calls reach the store.
	available    func() bool
	reach        reach
	jumped       time.Duration // its clock
	stop         context.CancelFunc
	stopped      bool
	ended        chan struct{}
	calls        int // under way
	opened       int // how often its breaker has opened, and had before the slot began to move
	openedBefore int
	missed       int // calls of Redis without an answer, since it was stopped

	mu      sync.Mutex
	waiting int
}

// newReplica makes a process on the store in Redis. It runs until it is stopped.
func (w *world) newReplica(name string, runs bool) *replica {
	r := &replica{name: name, world: w, ended: make(chan struct{}), available: func() bool { return true }}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	if w.mix.Memory {
		close(r.ended)
		if len(w.replicas) > 0 {
			r.store = w.replicas[0].store
		} else {
			r.store = memory.New(memory.Options{Bytes: 1 << 26, Bounds: w.mix.Bounds})
		}
		r.decides = r.store
		return r
	}
	breaker := redisclient.NewBreaker(&caller{world: w, replica: r}, redisclient.BreakerOptions{
		Deadline: deadline + 700*time.Microsecond, // not with the deadline of a decision
		OnChange: r.changed,
	})
	s := redis.New(breaker, redis.Options{
		Prefix:      prefix,
		Bounds:      w.mix.Bounds,
		StepTimeout: 237 * time.Millisecond, // which no ticker of the store is in step with
		Now:         func() time.Time { return time.Now().Add(r.jumped) },
		OnUnreported: func(_ time.Time, _ string, register store.Key, d *engine.Drops) {
			w.spilled(r, register, d)
		},
		OnBacklog: func(n int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.waiting = n
		},
	})
	o := fallback.Defaults()
	o.Deadline, o.Available = deadline, breaker.Closed
	o.OnFallback = func(ctx context.Context, _ store.FailureMode) {
		w.mu.Lock()
		defer w.mu.Unlock()
		group, _ := ctx.Value(groupKey{}).(store.Key)
		w.local[group]++
	}
	f := fallback.New(unconfirmed{s, w}, s, o)
	r.store, r.decides, r.available = s, f, breaker.Closed
	if !runs {
		close(r.ended)
		return r
	}
	var running sync.WaitGroup
	running.Go(func() { s.Run(withLabel(ctx, "its reports")) })
	running.Go(func() {
		<-time.After(3 * time.Millisecond) // they are not in step
		breaker.Run(withLabel(ctx, "a probe"), s.Probe)
	})
	go func() {
		running.Wait()
		close(r.ended)
	}()
	return r
}

// unconfirmed counts the occurrences of decisions of which Redis may or may not know: also of one that others got ahead of, when
// its caller's time is up.
type unconfirmed struct {
	store.Store

	world *world
}

// Decide implements store.Store.
func (u unconfirmed) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	d, err := u.Store.Decide(ctx, now, w, l)
	if errors.Is(err, store.ErrUnconfirmed) || err == nil && ctx.Err() != nil {
		u.world.mu.Lock()
		defer u.world.mu.Unlock()
		u.world.unconfirmed += max(d.Occurrences, 0)
	}
	return d, err
}

// changed notes that the breaker has opened or closed.
func (r *replica) changed(open bool, _ error) {
	if open {
		r.opened++
		r.world.note("%s decides without Redis", r.name)
		return
	}
	r.world.note("%s decides with Redis again", r.name)
}

func (r *replica) waits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting
}

// unreachable reports whether Redis does not answer r, or did not when r was stopped, as often as it asked.
func (r *replica) unreachable() bool {
	const often = 3
	return r.reach != redisAnswers || r.stopped && r.missed >= often
}

func (r *replica) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// decision is a call of Decide under way.
type decision struct {
	buckets  []store.Bucket
	spam     store.Bucket
	began    time.Time
	overlaps int64 // other calls that were under way at the same time
}

// groupKey is where a context says about which group something is decided.
type groupKey struct{}

// decide asks the store of a replica about a write, and keeps account of the answer.
func (r *replica) decide(label string, write *store.Write, l *store.Limits) store.Decision {
	w := r.world
	c := w.enter(write, l)
	began := time.Now()
	ctx := context.WithValue(withLabel(context.Background(), label), groupKey{}, write.GroupKey)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	d, err := r.decides.Decide(ctx, time.Now(), *write, *l)
	if took := time.Since(began); took > deadline+maxEarlyTimeout {
		w.violated(kindOverdue, "a decision takes %v", took)
	}
	if err != nil {
		w.violated(kindFailed, "%s decides nothing about %s: %v", r.name, write.Name, err)
	}
	w.noteCount(write, d.Verdict == store.Deny)
	w.leave(c, d)
	return d
}

// enter notes that a decision is under way. The spam filter of each group is a bucket too.
func (w *world) enter(write *store.Write, l *store.Limits) *decision {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &decision{buckets: slices.Clone(l.Quotas), spam: store.Bucket{}, began: time.Now(), overlaps: int64(len(w.calls))}
	if !l.SpamFilter.Key.IsZero() && (write.Update == nil || write.Update.ByRecorder) {
		c.spam = l.SpamFilter
		c.spam.Key = store.KeyOf("spam filter of", string(write.GroupKey[:]))
		w.spams[c.spam.Key] = write.GroupKey
		c.buckets = append(c.buckets, c.spam)
	}
	for other := range w.calls {
		other.overlaps++
	}
	w.calls[c] = struct{}{}
	for _, b := range c.buckets {
		w.buckets[b.Key] = b
	}
	return c
}

// leave notes which tokens a decision has taken, and whether it was refused one that was there.
func (w *world) leave(c *decision, d store.Decision) {
	w.mu.Lock()
	delete(w.calls, c)
	unfairly := ""
	switch {
	case d.Verdict.Admits() && !d.Retry:
		for _, b := range c.buckets {
			w.paid[b.Key]++
		}
	case d.Verdict == store.Deny:
		w.denied++
	case d.Verdict == store.Drop:
		b, known := w.buckets[d.RefusedBy.Key]
		if !known {
			b, known = c.spam, !c.spam.Key.IsZero()
		}
		if taken := w.paid[b.Key] + c.overlaps; known && taken < int64(b.Burst) {
			unfairly = fmt.Sprintf("%s refuses, though at most %d of its %d tokens are taken", b.Name, taken, b.Burst)
		}
	}
	w.mu.Unlock()
	if unfairly != "" && !w.mix.tokensMayBeLost() {
		w.violated(kindUnfair, "%s", unfairly)
	}
}

// inWords says what becomes of a write.
func inWordsOf(d store.Decision) string {
	switch d.Verdict {
	case store.Merge:
		return fmt.Sprintf("merge into %s, %d then", d.MergedInto, d.Total)
	case store.Drop:
		return fmt.Sprintf("drop by %s (+%d)", d.RefusedBy.Name, d.Occurrences)
	case store.Deny:
		return "deny by " + d.RefusedBy.Name
	case store.Admit, store.Aggregate:
	}
	if d.Retry {
		return d.Verdict.String() + " again"
	}
	return d.Verdict.String()
}
