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

// subject is a store with the methods that the simulation uses.
type subject interface {
	store.Store
	store.Queue
	Peek(ctx context.Context, groups, buckets []store.Key) (engine.Snapshot, error)
}

// deadline is the longest time of a decision.
const deadline = 50 * time.Millisecond

// replica is one process of the webhook.
type replica struct {
	name    string
	world   *world
	store   subject
	decides store.Store
	// available reports whether calls reach the store.
	available    func() bool
	redisLink    redisLink
	clockOffset  time.Duration // offset of the replica's clock
	stop         context.CancelFunc
	stopped      bool
	ended        chan struct{}
	calls        int // decisions in flight
	opened       int // number of times that the breaker has opened
	openedBefore int // opened at the start of a slot's move
	unanswered   int // calls to Redis without an answer since it was stopped

	mu          sync.Mutex
	backlogSize int
}

// newReplica returns a replica. If background is true, the background work of its store runs until the replica is stopped.
func (w *world) newReplica(name string, background bool) *replica {
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
		Deadline: deadline + 700*time.Microsecond, // never coincides with the deadline of a decision
		OnChange: r.changed,
	})
	s := redis.New(breaker, redis.Options{
		Prefix:      prefix,
		Bounds:      w.mix.Bounds,
		StepTimeout: 237 * time.Millisecond, // never coincides with a ticker of the store
		Now:         func() time.Time { return time.Now().Add(r.clockOffset) },
		OnUnreported: func(_ time.Time, _ string, register store.Key, d *engine.Drops) {
			w.countUnreported(r, register, d)
		},
		OnBacklog: func(n int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.backlogSize = n
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
	if !background {
		close(r.ended)
		return r
	}
	var running sync.WaitGroup
	running.Go(func() { s.Run(withLabel(ctx, "its backlog")) })
	running.Go(func() {
		<-time.After(3 * time.Millisecond) // so that the timers of the two never coincide
		breaker.Run(withLabel(ctx, "a probe"), s.Probe)
	})
	go func() {
		running.Wait()
		close(r.ended)
	}()
	return r
}

// unconfirmed is a store that counts the occurrences of decisions that Redis may or may not have. They include decisions whose context
// ended during the call.
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

// changed records that the breaker has opened or closed.
func (r *replica) changed(open bool, _ error) {
	if open {
		r.opened++
		r.world.note("%s decides without Redis", r.name)
		return
	}
	r.world.note("%s decides with Redis again", r.name)
}

// backlog returns the latest size of the store's backlog.
func (r *replica) backlog() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.backlogSize
}

// unreachable reports whether Redis does not answer the replica, or has not answered several calls since the replica was stopped.
func (r *replica) unreachable() bool {
	const maxUnanswered = 3
	return r.redisLink != redisAnswers || r.stopped && r.unanswered >= maxUnanswered
}

// over reports whether the replica has stopped, with its background work.
func (r *replica) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// decision is a call of Decide in flight.
type decision struct {
	buckets  []store.Bucket
	spam     store.Bucket
	began    time.Time
	overlaps int64 // number of other calls that were in flight at the same time
}

// groupKey is the context key of the group that a decision is about.
type groupKey struct{}

// decide decides a write on the replica, and records counts and tokens.
func (r *replica) decide(label string, write *store.Write, l *store.Limits) store.Decision {
	w := r.world
	c := w.enter(write, l)
	began := time.Now()
	ctx := context.WithValue(withLabel(context.Background(), label), groupKey{}, write.GroupKey)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	d, err := r.decides.Decide(ctx, time.Now(), *write, *l)
	if took := time.Since(began); took > deadline+maxEarlyTimeout {
		w.reportViolation(kindOverdue, "a decision takes %v", took)
	}
	if err != nil {
		w.reportViolation(kindFailed, "%s cannot decide %s: %v", r.name, write.Name, err)
	}
	w.recordCount(write, d.Verdict == store.Deny)
	w.leave(c, d)
	return d
}

// enter records the start of a decision. It treats the spam filter of each group as a bucket.
func (w *world) enter(write *store.Write, l *store.Limits) *decision {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &decision{buckets: slices.Clone(l.Quotas), spam: store.Bucket{}, began: time.Now(), overlaps: int64(len(w.calls))}
	if !l.SpamFilter.Key.IsZero() && (write.Update == nil || write.Update.ByRecorder) {
		c.spam = l.SpamFilter
		c.spam.Key = store.KeyOf("spam filter of", string(write.GroupKey[:]))
		w.spamGroups[c.spam.Key] = write.GroupKey
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

// leave records the tokens that a decision has taken, and reports a violation if a bucket with tokens has refused.
func (w *world) leave(c *decision, d store.Decision) {
	w.mu.Lock()
	delete(w.calls, c)
	unfairly := ""
	switch {
	case d.Verdict.Admits() && !d.Retry:
		for _, b := range c.buckets {
			w.tokensTaken[b.Key]++
		}
	case d.Verdict == store.Deny:
		w.denied++
	case d.Verdict == store.Drop:
		b, known := w.buckets[d.RefusedBy.Key]
		if !known {
			b, known = c.spam, !c.spam.Key.IsZero()
		}
		if taken := w.tokensTaken[b.Key] + c.overlaps; known && taken < int64(b.Burst) {
			unfairly = fmt.Sprintf("%s refuses, although at most %d of its %d tokens are taken", b.Name, taken, b.Burst)
		}
	}
	w.mu.Unlock()
	if unfairly != "" && !w.mix.tokensMayBeLost() {
		w.reportViolation(kindUnfair, "%s", unfairly)
	}
}

// describeDecision returns a decision as text.
func describeDecision(d store.Decision) string {
	switch d.Verdict {
	case store.Merge:
		return fmt.Sprintf("merge into %s, total %d", d.MergedInto, d.Total)
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
