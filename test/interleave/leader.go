package interleave

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

// errDead is what a process that has died gets.
var errDead = errors.New("this process is dead")

// leader is a term of a settler: the real one, between the store of a replica and the API server.
type leader struct {
	name    string
	replica *replica
	cancel  context.CancelFunc
	abandon chan struct{}
	left    bool // it was told to end
	dead    atomic.Bool
	ended   chan struct{}
}

// lead begins a term.
func (w *world) lead(on *replica) *leader {
	w.terms++
	ctx, cancel := context.WithCancel(context.Background())
	l := &leader{name: fmt.Sprint("settler ", w.terms), replica: on, cancel: cancel, abandon: make(chan struct{}), ended: make(chan struct{})}
	s := l.settler(settler.Options{Shared: true, Available: on.available, Abandon: l.abandon})
	go func() {
		defer close(l.ended)
		if err := s.Run(ctx); err != nil && !w.mix.Slow && !w.mix.Junk { // or else it had no time, or could not read one
			w.violated(kindFailed, "%s: %v", l.name, err)
		}
	}()
	w.leaders = append(w.leaders, l)
	return l
}

func (l *leader) settler(o settler.Options) *settler.Settler {
	w := l.replica.world
	o.Observe = func(t settler.Attempt) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.givenUp += t.Lost
	}
	return settler.New(&queue{l}, &clients{world: w, settler: l}, o)
}

func (l *leader) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// end ends a term: gracefully, at once, or as one that was killed.
func (l *leader) end(how string) {
	l.left = true
	switch how {
	case "ends":
		l.cancel()
	case "loses its lease":
		close(l.abandon)
	case "dies":
		l.dead.Store(true)
		close(l.abandon)
	}
}

var _ store.Queue = (*queue)(nil)

// queue is the store of a replica as its settler sees it: each call waits for the schedule.
type queue struct{ *leader }

// wait lets the schedule say when a call begins.
func (q *queue) wait(ctx context.Context, says string) error {
	if q.dead.Load() {
		return errDead
	}
	err := q.replica.world.ops.ask(ctx, &operation{by: q.name, says: says, once: true, run: func() {}})
	if err == nil && q.dead.Load() {
		return errDead
	}
	return err
}

// late notes a call that has outlived its context.
func (q *queue) late(ctx context.Context, what string) {
	if by, ok := ctx.Deadline(); ok && time.Since(by) > maxEarlyTimeout {
		q.replica.world.violated(kindOverdue, "%s of %s takes %v too long", what, q.name, time.Since(by))
	}
}

// Claim implements store.Queue.
func (q *queue) Claim(
	ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool,
) ([]store.PendingWrite, error) {
	if err := q.wait(ctx, "claims"); err != nil {
		return nil, err
	}
	defer q.late(ctx, "a claim")
	writes, err := q.replica.store.Claim(withLabel(ctx, q.name), now, ahead, n, claimed)
	for i := range writes {
		if p := &writes[i]; p.Notice != nil {
			about := &p.Notice.InvolvedObject
			q.replica.world.noticed(p.Name, about.Name, p.Notice.First)
		}
	}
	return writes, err
}

// Complete implements store.Queue.
func (q *queue) Complete(ctx context.Context, now time.Time, p store.PendingWrite, o store.Outcome) error {
	says := fmt.Sprintf("completes %s, count %d, as %s", q.replica.world.alias(p.Name), p.Total, o.Result)
	if err := q.wait(ctx, says); err != nil {
		return err
	}
	defer q.late(ctx, "a completion")
	return q.replica.store.Complete(withLabel(ctx, q.name), now, p, o)
}

// Pending implements store.Queue.
func (q *queue) Pending(ctx context.Context) (int64, error) {
	return q.replica.store.Pending(withLabel(ctx, q.name))
}
