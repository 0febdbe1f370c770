package interleave

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"
)

// operation is a request from one part of the cluster to another. The schedule executes it in one step, and delivers its answer in
// another. The caller waits for the answer until its context is done. After that, the operation may still be executed.
type operation struct {
	by, name  string
	id        string // by and name, with a number if they are not unique
	n         int    // number in the order of arrival
	redis     *call  // nil if it is not a call to Redis
	replica   *replica
	run       func()
	refuse    func() // makes another webhook refuse it; nil if none can
	fail      func() // makes the API server answer with an error; nil if it cannot
	prompt    bool   // must be executed before settlers may write
	once      bool   // executed and answered in one step
	ran       bool
	abandoned bool // the caller has stopped waiting
	dropped   bool // lost
	reply     chan error
	at        time.Time // time of arrival
}

// operations has the operations in flight.
type operations struct {
	mu      sync.Mutex
	all     []*operation
	arrived int
	seed    uint64
	wake    chan struct{}
}

func newOperations(seed uint64) *operations {
	return &operations{seed: seed, wake: make(chan struct{}, 1)}
}

// submit submits o and waits for its answer. It returns an error of the context or of the connection.
func (ops *operations) submit(ctx context.Context, o *operation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.reply = make(chan error, 1)
	ops.add(o)
	ended, timeout, stop := ops.deadline(ctx, o)
	defer stop()
	select {
	case err := <-o.reply:
		return err
	case <-ended:
	case <-timeout:
	}
	ops.mu.Lock()
	defer ops.mu.Unlock()
	o.countUnanswered()
	o.abandoned = true
	if o.ran || o.once || o.dropped {
		ops.drop(o)
	}
	return cmp.Or(ctx.Err(), context.DeadlineExceeded)
}

// countUnanswered counts a call to Redis by a stopped replica that gets no answer.
func (o *operation) countUnanswered() {
	if o.redis != nil && o.replica.stopped {
		o.replica.unanswered++
	}
}

// deadline returns channels that end the wait of a caller. A client of Redis has its own timeout, and may notice a deadline late. The wait
// therefore ends up to maxEarlyTimeout before or after the deadline, by a hash of the seed and the operation. No two waits end at once.
func (ops *operations) deadline(ctx context.Context, o *operation) (ended <-chan struct{}, timeout <-chan time.Time, stop func()) {
	end, bounded := ctx.Deadline()
	if o.redis == nil || !bounded {
		return ctx.Done(), nil, func() {}
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, ops.seed, o.id) // a hash never fails
	timer := time.NewTimer(time.Until(end) + time.Duration(h.Sum32()%uint32(2*maxEarlyTimeout)) - maxEarlyTimeout)
	canceled := make(chan struct{})
	detach := context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			close(canceled)
		}
	})
	return canceled, timer.C, func() {
		timer.Stop()
		detach()
	}
}

// maxEarlyTimeout is the longest time by which a call to Redis ends before or after its deadline.
const maxEarlyTimeout = 2 * time.Millisecond

// add gives o a unique id and puts it in flight.
func (ops *operations) add(o *operation) {
	ops.mu.Lock()
	defer ops.mu.Unlock()
	ops.arrived++
	o.at = time.Now()
	o.n, o.id = ops.arrived, o.by+": "+o.name
	for n := 2; slices.ContainsFunc(ops.all, func(other *operation) bool { return other.id == o.id }); n++ {
		o.id = fmt.Sprintf("%s: %s (%d)", o.by, o.name, n)
	}
	ops.all = append(ops.all, o)
	if o.dropped {
		return
	}
	select {
	case ops.wake <- struct{}{}:
	default:
	}
}

// drop removes o. The caller must hold the mutex.
func (ops *operations) drop(o *operation) {
	ops.all = slices.DeleteFunc(ops.all, func(other *operation) bool { return other == o })
}

// live returns the operations that are not lost, in an order that does not depend on the order of goroutines.
func (ops *operations) live() []*operation {
	ops.mu.Lock()
	defer ops.mu.Unlock()
	live := make([]*operation, 0, len(ops.all))
	for _, o := range ops.all {
		if !o.dropped {
			live = append(live, o)
		}
	}
	slices.SortFunc(live, func(a, b *operation) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.n, b.n)) })
	return live
}

// forward executes o or, if it was executed, answers it.
func (ops *operations) forward(o *operation) {
	if !o.ran {
		o.run()
		o.ran = o.redis == nil || o.redis.over()
		if !o.ran || !o.once && !o.abandoned {
			return
		}
	}
	ops.answer(o, nil)
}

// answer ends o with its result or, if err is not nil, with err as an error of the connection.
func (ops *operations) answer(o *operation, err error) {
	ops.mu.Lock()
	defer ops.mu.Unlock()
	if err != nil {
		o.countUnanswered()
	}
	if !o.abandoned {
		o.reply <- err
	}
	ops.drop(o)
}

// lose loses o. It is never executed or answered after that, and its caller waits until its context is done.
func (ops *operations) lose(o *operation) {
	ops.mu.Lock()
	defer ops.mu.Unlock()
	o.dropped = true
	if o.abandoned {
		ops.drop(o)
	}
}
