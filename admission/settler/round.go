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
	// maxGroups bounds the groups that are held. More wait in the store, which gives each namespace a turn for its counts, and
	// another for the notices that its Events have caused. A turn may have no more of them than are left for all others, so that
	// none waits long for another's storm.
	maxGroups = 128
	// maxFailures is how often a write may fail for a reason of its own until it is given back.
	maxFailures = 4
	// maxFailureTime is how long a write may fail for reasons of its own until it is given up.
	maxFailureTime = time.Hour
	// storeTimeout bounds one call of the store.
	storeTimeout = 10 * time.Second
)

// Attempt is a try to write something.
type Attempt struct {
	// Result is that of the outcome, or retried: it is tried again soon, while it stays claimed.
	Result string
	// Lag is the time since the write fell due, of one that the API server took, by the clocks of the store and of
	// this process; 0 before it was due.
	Lag time.Duration
	// Lost is the number of occurrences that nothing reports, of a write that is given up.
	Lost int64
}

// claimedGroup is what is claimed of one group of the store, in the order in which it is written.
type claimedGroup struct {
	key    store.Key
	turn   string
	writes []*claimedWrite
}

// claim claims what falls due within ahead, and returns how many groups are held then; one more if that was not all.
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
	answers := s.responses.Load()
	for _, p := range writes {
		g := held[p.Ref.Group]
		if len(g.writes) == 0 {
			s.claimed = append(s.claimed, g)
		}
		w := &claimedWrite{PendingWrite: p, storeID: s.opts.StoreID, notedBefore: p.Annotated, responses: answers}
		if p.Name == "" { // no Event took the place of one that was not found
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

// writeClaimed writes what is held, and reports whether all of it is written or the API server has answered anything.
func (s *Settler) writeClaimed(ctx context.Context) bool {
	answers := s.responses.Load()
	var all errgroup.Group
	all.SetLimit(workers)
	for _, g := range s.claimed {
		all.Go(func() error {
			for len(g.writes) > 0 && s.writeAndComplete(ctx, g.writes[0]) {
				g.writes = g.writes[1:]
			}
			return nil
		})
	}
	_ = all.Wait() // nothing fails
	s.claimed = slices.DeleteFunc(s.claimed, func(g *claimedGroup) bool { return len(g.writes) == 0 })
	return len(s.claimed) == 0 || s.responses.Load() != answers
}

// writeAndComplete makes one write, and reports whether the store knows what became of it.
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
		log.Error(err, "Store did not take the outcome of a write, trying again")
		return false
	}
	return true
}

// attempt sends one write. Its outcome is set unless it is to be tried again soon.
func (s *Settler) attempt(ctx context.Context, w *claimedWrite) {
	log := logr.FromContextOrDiscard(ctx)
	traced, span := s.opts.Tracer.Start(ctx, "settle", trace.WithSpanKind(trace.SpanKindClient))
	o, err := s.send(traced, w)
	final := o.Result != store.Failed || s.recordFailure(ctx, w, &o, err)
	t := Attempt{Result: o.Result.String()}
	if final {
		w.outcome = &o
	} else {
		t.Result = "retried"
	}
	switch o.Result {
	case store.Written:
		t.Lag = max(0, time.Since(w.Due))
	case store.Rejected:
		log.Error(err, "API server rejects a count, a notice reports it", "count", w.Total)
	case store.GivenUp:
		t.Lost = w.Unreported()
		log.Error(err, "A write is given up, what it was to report is lost", "unreported", t.Lost)
	case store.Failed:
		log.V(1).Info("Write failed, trying again", "later", final, "reason", err.Error())
	case store.NotFound, store.NameTaken, store.Read:
	}
	endSpan(span, w, t.Result, err)
	if o.Result != store.Read { // which is no write
		s.opts.Observe(t)
	}
}

// endSpan says what became of a try: of an error its reason only, as the API server may quote the Event in it.
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

// recordFailure counts a failure, and reports whether it is final for now. What delays everybody counts only
// if the API server answered another request in the meantime, and is never given up.
func (s *Settler) recordFailure(ctx context.Context, w *claimedWrite, o *store.Outcome, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	own, answers := !isUnavailable(err), s.responses.Load()
	if own || answers != w.responses {
		w.failures++
	}
	w.responses = answers
	if w.failures < maxFailures && !errors.Is(err, errKeepsChanging) {
		return false
	}
	if own && !w.FailingSince.IsZero() && w.Due.Sub(w.FailingSince) > maxFailureTime {
		o.Result = store.GivenUp
	}
	return true
}
