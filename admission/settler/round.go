package settler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/eventquota/eventquota/store"
)

const (
	// maxGroups bounds the claimed groups. Others wait in the store, which gives each namespace one turn for its counts, and one for
	// the notices that its Events have caused. A turn gets at most as many groups as are left for all others, so that no namespace
	// waits long for the storm of another.
	maxGroups = 128
	// maxFailures is how often a write may fail for a reason of its own before it is returned to the store.
	maxFailures = 4
	// maxFailureTime is how long a write may fail for reasons of its own before it is given up.
	maxFailureTime = time.Hour
	// storeTimeout bounds one call of the store.
	storeTimeout = 10 * time.Second
)

// Attempt is one attempt to make a pending write.
type Attempt struct {
	// Result is the result of the outcome, or retried if the write stays claimed and is retried soon.
	Result string
	// Lag is the time from when the write fell due, by the store's clock, until the API server accepted it, by the clock of
	// this process. It is 0 if the write was not due yet.
	Lag time.Duration
	// Lost is the number of occurrences that nothing reports, because the write is given up.
	Lost int64
}

// claimedGroup has the claimed writes of one group of the store, in the order in which they are written.
type claimedGroup struct {
	key    store.Key
	turn   string
	writes []*claimedWrite
}

// claim claims writes that fall due within ahead. It returns the number of claimed groups, plus one if more may be due.
func (s *Settler) claim(ctx context.Context, ahead time.Duration) int {
	free := maxGroups - len(s.claimed)
	if free == 0 || !s.opts.Available() {
		return len(s.claimed) + 1
	}
	held, shares := map[store.Key]*claimedGroup{}, map[string]int{} // by turn
	for _, g := range s.claimed {
		held[g.key] = g
		shares[g.turn]++
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	writes, err := s.queue.Claim(ctx, time.Now(), ahead, free, func(turn string, key store.Key) bool {
		if held[key] != nil || shares[turn] >= maxGroups-len(held) {
			return true
		}
		held[key] = &claimedGroup{key: key, turn: turn}
		shares[turn]++
		return false
	})
	responses := s.responses.Load()
	for _, p := range writes {
		g := held[p.Ref.Group]
		if len(g.writes) == 0 {
			s.claimed = append(s.claimed, g)
		}
		w := &claimedWrite{PendingWrite: p, storeID: s.opts.StoreID, annotatedBefore: p.Annotated, responses: responses}
		if p.Name == "" { // no Event replaced the one that was not found
			w.outcome = &store.Outcome{Result: store.NotFound}
		}
		g.writes = append(g.writes, w)
	}
	if err != nil {
		s.logLimiter.Do(func() { logr.FromContextOrDiscard(ctx).Error(err, "Store did not return all pending writes") })
		return len(s.claimed) + 1
	}
	return len(s.claimed)
}

// writeClaimed makes the claimed writes, and reports whether all are done or the API server has answered any request.
func (s *Settler) writeClaimed(ctx context.Context) bool {
	responses := s.responses.Load()
	var group errgroup.Group
	group.SetLimit(workers)
	for _, g := range s.claimed {
		group.Go(func() error {
			for len(g.writes) > 0 && s.writeAndComplete(ctx, g.writes[0]) {
				g.writes = g.writes[1:]
			}
			return nil
		})
	}
	_ = group.Wait() // no goroutine returns an error
	s.claimed = slices.DeleteFunc(s.claimed, func(g *claimedGroup) bool { return len(g.writes) == 0 })
	return len(s.claimed) == 0 || s.responses.Load() != responses
}

// writeAndComplete makes one write, and reports whether the store has accepted its outcome.
func (s *Settler) writeAndComplete(ctx context.Context, w *claimedWrite) bool {
	if ctx.Err() != nil || !s.opts.Available() {
		return false
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("namespace", w.Namespace, "event", w.Name)
	if w.outcome == nil {
		s.attempt(logr.NewContext(ctx, log), w)
	}
	if w.outcome == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := s.queue.Complete(ctx, time.Now(), w.PendingWrite, *w.outcome); err != nil {
		log.Error(err, "Store did not accept the outcome of a write, will retry")
		return false
	}
	return true
}

// attempt sends one write. It sets the outcome unless the write is to be retried soon.
func (s *Settler) attempt(ctx context.Context, w *claimedWrite) {
	log := logr.FromContextOrDiscard(ctx)
	traced, span := s.opts.Tracer.Start(ctx, "settle", trace.WithSpanKind(trace.SpanKindClient))
	o, err := s.send(traced, w)
	final := o.Result != store.Failed || s.recordFailure(ctx, w, &o, err)
	a := Attempt{Result: o.Result.String()}
	if final {
		w.outcome = &o
	} else {
		a.Result = "retried"
	}
	switch o.Result {
	case store.Written:
		a.Lag = max(0, time.Since(w.Due))
	case store.Rejected:
		log.Error(err, "API server rejected a count, a notice will report it", "count", w.Total)
	case store.GivenUp:
		a.Lost = w.Unreported()
		log.Error(err, "Gave up a write, its unreported occurrences are lost", "unreported", a.Lost)
	case store.Failed:
		log.V(1).Info("Write failed, will retry", "later", final, "reason", err.Error())
	case store.NotFound, store.NameTaken, store.Read:
	}
	endSpan(span, w, a.Result, err)
	if o.Result != store.Read { // Read is no write
		s.opts.Observe(a)
	}
}

// endSpan records the result of an attempt. Of an error it records only the reason, as the API server may quote the Event.
func endSpan(span trace.Span, w *claimedWrite, result string, err error) {
	span.SetAttributes(
		attribute.String("k8s.namespace.name", w.Namespace),
		attribute.Bool("eventquota.notice", w.Notice != nil),
		attribute.String("eventquota.result", result),
	)
	if err != nil {
		span.SetStatus(codes.Error, string(apierrors.ReasonForError(err)))
	}
	span.End()
}

// recordFailure counts a failure, and reports whether to return the write to the store. A failure that affects all writes counts
// only if the API server answered another request in the meantime, and never makes a write be given up.
func (s *Settler) recordFailure(ctx context.Context, w *claimedWrite, o *store.Outcome, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	own, responses := !isUnavailable(err), s.responses.Load()
	if own || responses != w.responses {
		w.failures++
	}
	w.responses = responses
	if w.failures < maxFailures && !errors.Is(err, errKeepsChanging) {
		return false
	}
	if own && !w.FailingSince.IsZero() && w.Due.Sub(w.FailingSince) > maxFailureTime {
		o.Result = store.GivenUp
	}
	return true
}
