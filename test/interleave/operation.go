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

// operation is a request from one part of the cluster to another. The schedule executes it in one step, and delivers its
// answer in another. The caller waits for the answer, or until its context ends; then the operation may be executed late.
type operation struct {
	by, name  string
	id        string // by and name, and a number if they are not unique
	n         int    // in the order of arrival
	redis     *call  // nil if it is no call to Redis
	replica   *replica
	run       func()
	refuse    func() // another webhook refuses it; nil if none can
	fail      func() // the API server answers with an error; nil if it cannot
	prompt    bool   // it takes less time than settlers wait before they write
	once      bool   // it is executed and answered in one step
	ran       bool
	abandoned bool // the caller has stopped waiting
	dropped   bool // it is lost
	reply     chan error
	at        time.Time // of its arrival
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

// submit submits o, and waits for its answer. The error is that of the context or of the connection.
func (os *operations) submit(ctx context.Context, o *operation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.reply = make(chan error, 1)
	os.add(o)
	ended, timeout, stop := os.deadline(ctx, o)
	defer stop()
	select {
	case err := <-o.reply:
		return err
	case <-ended:
	case <-timeout:
	}
	os.mu.Lock()
	defer os.mu.Unlock()
	o.countUnanswered()
	o.abandoned = true
	if o.ran || o.once || o.dropped {
		os.drop(o)
	}
	return cmp.Or(ctx.Err(), context.DeadlineExceeded)
}

// countUnanswered counts a call to Redis that a stopped replica gets no answer to.
func (o *operation) countUnanswered() {
	if o.redis != nil && o.replica.stopped {
		o.replica.unanswered++
	}
}

// deadline returns channels that end the wait of a caller. A client of Redis has its own timeout, and may notice a deadline
// late. So the wait ends up to 2 ms before or after the deadline, by chance, and never at the same time as another.
func (os *operations) deadline(ctx context.Context, o *operation) (ended <-chan struct{}, timeout <-chan time.Time, stop func()) {
	end, bounded := ctx.Deadline()
	if o.redis == nil || !bounded {
		return ctx.Done(), nil, func() {}
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, os.seed, o.id) // never fails
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

func (os *operations) add(o *operation) {
	os.mu.Lock()
	defer os.mu.Unlock()
	os.arrived++
	o.at = time.Now()
	o.n, o.id = os.arrived, o.by+": "+o.name
	for n := 2; slices.ContainsFunc(os.all, func(other *operation) bool { return other.id == o.id }); n++ {
		o.id = fmt.Sprintf("%s: %s (%d)", o.by, o.name, n)
	}
	os.all = append(os.all, o)
	if o.dropped {
		return
	}
	select {
	case os.wake <- struct{}{}:
	default:
	}
}

// drop removes o. The caller holds the lock.
func (os *operations) drop(o *operation) {
	os.all = slices.DeleteFunc(os.all, func(other *operation) bool { return other == o })
}

// live returns the operations that are not lost, in an order that does not depend on the order of goroutines.
func (os *operations) live() []*operation {
	os.mu.Lock()
	defer os.mu.Unlock()
	live := make([]*operation, 0, len(os.all))
	for _, o := range os.all {
		if !o.dropped {
			live = append(live, o)
		}
	}
	slices.SortFunc(live, func(a, b *operation) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.n, b.n)) })
	return live
}

// forward executes o or, if it was executed, answers it.
func (os *operations) forward(o *operation) {
	if !o.ran {
		o.run()
		o.ran = o.redis == nil || o.redis.over()
		if !o.ran || !o.once && !o.abandoned {
			return
		}
	}
	os.answer(o, nil)
}

// answer ends o with its result or, if err is not nil, with that error of the connection.
func (os *operations) answer(o *operation, err error) {
	os.mu.Lock()
	defer os.mu.Unlock()
	if err != nil {
		o.countUnanswered()
	}
	if !o.abandoned {
		o.reply <- err
	}
	os.drop(o)
}

// lose loses o: nothing happens to it any more, and its caller waits until its context ends.
func (os *operations) lose(o *operation) {
	os.mu.Lock()
	defer os.mu.Unlock()
	o.dropped = true
	if o.abandoned {
		os.drop(o)
	}
}
