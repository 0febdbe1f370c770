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

// operation is something that one part of the cluster asks of another. Its caller waits until the schedule has carried it out and,
// as a second step, has let the answer through; or until the caller's context ends, and then the op may be carried out
// late.
type operation struct {
	by, says  string
	id        string // both, and a number where that would not be one op
	n         int    // in the order of arrival
	redis     *call  // nil for what is no call of Redis
	replica   *replica
	run       func()
	refuse    func() // others refuse it; nil where they cannot
	fail      func() // the API server answers an error; nil where it cannot
	prompt    bool   // it takes less time than settlers wait before they write
	once      bool   // it is answered in the step that carries it out
	ran       bool
	abandoned bool // the caller waits no more
	dropped   bool // nothing happens to it any more
	reply     chan error
	at        time.Time // of its arrival
}

// operations are those under way.
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

// ask waits for o. The error is that of the context or of the way there.
func (os *operations) ask(ctx context.Context, o *operation) error {
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
	o.missed()
	o.abandoned = true
	if o.ran || o.once || o.dropped {
		os.drop(o)
	}
	return cmp.Or(ctx.Err(), context.DeadlineExceeded)
}

// missed notes that there is no answer.
func (o *operation) missed() {
	if o.redis != nil && o.replica.stopped {
		o.replica.missed++
	}
}

// deadline is when a caller ceases to wait. A client of Redis has a timeout of its own, and notices a deadline late: either
// comes by chance up to 2 ms before the deadline or after it, so that it never coincides with those of others.
func (os *operations) deadline(ctx context.Context, o *operation) (ended <-chan struct{}, timeout <-chan time.Time, stop func()) {
	by, bounded := ctx.Deadline()
	if o.redis == nil || !bounded {
		return ctx.Done(), nil, func() {}
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, os.seed, o.id) // never fails
	timer := time.NewTimer(time.Until(by) + time.Duration(h.Sum32()%uint32(2*maxEarlyTimeout)) - maxEarlyTimeout)
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

// maxEarlyTimeout is how much sooner or later than its deadline a call of Redis ends at most.
const maxEarlyTimeout = 2 * time.Millisecond

func (os *operations) add(o *operation) {
	os.mu.Lock()
	defer os.mu.Unlock()
	os.arrived++
	o.at = time.Now()
	o.n, o.id = os.arrived, o.by+": "+o.says
	for n := 2; slices.ContainsFunc(os.all, func(other *operation) bool { return other.id == o.id }); n++ {
		o.id = fmt.Sprintf("%s: %s (%d)", o.by, o.says, n)
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

// drop forgets o. The caller holds the lock.
func (os *operations) drop(o *operation) {
	os.all = slices.DeleteFunc(os.all, func(other *operation) bool { return other == o })
}

// live are the ops to which something may happen, in an order that does not depend on that of goroutines.
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

// forward carries o out or, after that, answers it.
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

// answer ends o with an error of the way, or with what it has brought.
func (os *operations) answer(o *operation, err error) {
	os.mu.Lock()
	defer os.mu.Unlock()
	if err != nil {
		o.missed()
	}
	if !o.abandoned {
		o.reply <- err
	}
	os.drop(o)
}

// lose makes o one to which nothing happens any more: its caller waits until its context ends.
func (os *operations) lose(o *operation) {
	os.mu.Lock()
	defer os.mu.Unlock()
	o.dropped = true
	if o.abandoned {
		os.drop(o)
	}
}
