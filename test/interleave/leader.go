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

// errDead is the error of calls by a process that has crashed.
var errDead = errors.New("this process has crashed")

// leader is a term of a real settler, with the store of a replica and the API server.
type leader struct {
	name    string
	replica *replica
	cancel  context.CancelFunc
	abandon chan struct{}
	ending  bool // the term is ending or over
	dead    atomic.Bool
	ended   chan struct{}
}

// startLeader starts a term on a replica.
func (w *world) startLeader(r *replica) *leader {
	w.terms++
	ctx, cancel := context.WithCancel(context.Background())
	l := &leader{name: fmt.Sprint("settler ", w.terms), replica: r, cancel: cancel, abandon: make(chan struct{}), ended: make(chan struct{})}
	s := l.settler(settler.Options{
		TakenOver: func(context.Context) bool { return true }, Available: r.available, Abandon: l.abandon,
	})
	go func() {
		defer close(l.ended)
		if err := s.Run(ctx); err != nil && !w.mix.Slow && !w.mix.Junk { // in these mixes, a timeout or an unreadable register is not a violation
			w.reportViolation(kindFailed, "%s: %v", l.name, err)
		}
	}()
	w.leaders = append(w.leaders, l)
	return l
}

// settler returns the settler of the term.
func (l *leader) settler(o settler.Options) *settler.Settler {
	w := l.replica.world
	o.Observe = func(t settler.Attempt) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.givenUp += t.Lost
	}
	return settler.New(&queue{l}, &clients{world: w, settler: l}, o)
}

// over reports whether the term has ended.
func (l *leader) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// end ends a term: gracefully, immediately, or by a crash.
func (l *leader) end(ending string) {
	l.ending = true
	switch ending {
	case "ends":
		l.cancel()
	case "loses its lease":
		close(l.abandon)
	case "crashes":
		l.dead.Store(true)
		close(l.abandon)
	}
}

var _ store.Queue = (*queue)(nil)

// queue is the store of a replica for its settler. Each call waits for the schedule.
type queue struct{ *leader }

// wait waits until the schedule starts a call.
func (q *queue) wait(ctx context.Context, name string) error {
	if q.dead.Load() {
		return errDead
	}
	err := q.replica.world.ops.submit(ctx, &operation{by: q.name, name: name, once: true, run: func() {}})
	if err == nil && q.dead.Load() {
		return errDead
	}
	return err
}

// checkDeadline reports a call that has outlived its context.
func (q *queue) checkDeadline(ctx context.Context, call string) {
	if deadline, ok := ctx.Deadline(); ok && time.Since(deadline) > maxEarlyTimeout {
		q.replica.world.reportViolation(kindOverdue, "%s of %s takes %v too long", call, q.name, time.Since(deadline))
	}
}

// Claim implements store.Queue.
func (q *queue) Claim(
	ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool,
) ([]store.PendingWrite, error) {
	if err := q.wait(ctx, "claims"); err != nil {
		return nil, err
	}
	defer q.checkDeadline(ctx, "a claim")
	writes, err := q.replica.store.Claim(withLabel(ctx, q.name), now, ahead, n, claimed)
	for i := range writes {
		if p := &writes[i]; p.Notice != nil {
			about := &p.Notice.InvolvedObject
			q.replica.world.nameNotice(p.Name, about.Name, p.Notice.First)
		}
	}
	return writes, err
}

// Complete implements store.Queue.
func (q *queue) Complete(ctx context.Context, now time.Time, p store.PendingWrite, o store.Outcome) error {
	name := fmt.Sprintf("completes %s, count %d, as %s", q.replica.world.alias(p.Name), p.Total, o.Result)
	if err := q.wait(ctx, name); err != nil {
		return err
	}
	defer q.checkDeadline(ctx, "a completion")
	return q.replica.store.Complete(withLabel(ctx, q.name), now, p, o)
}

// Pending implements store.Queue.
func (q *queue) Pending(ctx context.Context) (int64, error) {
	return q.replica.store.Pending(withLabel(ctx, q.name))
}
