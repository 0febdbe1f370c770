package settler

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/eventquota/eventquota/store"
)

// Try is a try to write something.
type Try struct {
	Result Result
	// Late is the time since the write fell due, of one that the API server took, by the clocks of the store and of
	// this process; 0 before it was due.
	Late time.Duration
	// Lost is the number of occurrences that nothing reports, of a write that is given up.
	Lost int64
}

// Result is what became of one try: that of the outcome, or retried.
type Result string

// Written says that the API server took the write, and retried that it is tried again soon, while it stays claimed.
const (
	Written Result = "written"
	retried Result = "retried"
)

const (
	// maxFailures is how often a write may fail for a reason of its own until it is given back.
	maxFailures = 4
	// giveUpAfter is how long a write may fail for reasons of its own until it is given up.
	giveUpAfter = time.Hour
	// storeTimeout bounds one call of the store.
	storeTimeout = 10 * time.Second
)

// work works on what comes out of the line until that is shut down.
func (s *Settler) work(ctx context.Context) {
	for {
		g, shutdown := s.line.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			s.proceed(ctx, g)
		}
		s.line.Done(g)
	}
}

// proceed works on one write of a group, which then goes to the end of the line: a group with many
// writes keeps no other waiting.
func (s *Settler) proceed(ctx context.Context, g *group) {
	if !s.opts.Available() {
		s.line.AddAfter(g, s.opts.Poll)
		return
	}
	w := g.writes[0]
	log := logr.FromContextOrDiscard(ctx).WithValues("namespace", w.Namespace, "event", w.Name)
	if w.outcome == nil {
		s.try(logr.NewContext(ctx, log), w)
	}
	if w.outcome == nil {
		s.line.AddRateLimited(g)
		return
	}
	if err := s.complete(ctx, w); err != nil {
		log.Error(err, "Store did not take the outcome of a write, trying again")
		s.line.AddRateLimited(g)
		return
	}
	s.line.Forget(g)
	if s.release(g) {
		s.line.Add(g)
	}
}

// try sends one write. Its outcome is set unless it is to be tried again soon.
func (s *Settler) try(ctx context.Context, w *write) {
	log := logr.FromContextOrDiscard(ctx)
	traced, span := s.opts.Tracer.Start(ctx, "settle", trace.WithSpanKind(trace.SpanKindClient))
	o, err := s.send(traced, w)
	final := o.Result != store.Failed || s.failed(ctx, w, &o, err)
	t := Try{Result: Result(o.Result.String())}
	switch {
	case !final:
		t.Result = retried
	case o.Result == store.Written:
		t.Late = max(0, time.Since(w.Due))
	case o.Result == store.GivenUp:
		t.Lost = w.Unreported()
	}
	endSpan(span, w, t.Result, err)
	s.opts.Observe(t)
	if !final {
		log.V(1).Info("Write failed, trying again", "reason", err.Error())
		return
	}
	w.outcome = &o
	switch o.Result {
	case store.Rejected:
		log.Error(err, "API server rejects a count, a notice reports it", "count", w.Total)
	case store.GivenUp:
		log.Error(err, "A write is given up, what it was to report is lost", "unreported", t.Lost)
	case store.Failed:
		log.V(1).Info("Write failed, given back for later", "reason", err.Error())
	case store.Written, store.NotFound, store.NameTaken:
	}
}

// endSpan says what became of a try: of an error its reason only, as the API server may quote the Event in it.
func endSpan(span trace.Span, w *write, r Result, err error) {
	span.SetAttributes(
		attribute.String("k8s.namespace.name", w.Namespace),
		attribute.Bool("eventquota.notice", w.Notice != nil),
		attribute.String("eventquota.result", string(r)),
	)
	if err != nil {
		span.SetStatus(codes.Error, string(apierrors.ReasonForError(err)))
	}
	span.End()
}

// failed counts a failure, and reports whether it is final for now. What delays everybody counts only
// if the API server answered another request in the meantime, and is never given up.
func (s *Settler) failed(ctx context.Context, w *write, o *store.Outcome, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	own, answers := !unavailable(err), s.answers.Load()
	if own || answers != w.answers {
		w.failures++
	}
	w.answers = answers
	if w.failures < maxFailures && !errors.Is(err, errChanging) {
		return false
	}
	if own && !w.Failing.IsZero() && w.Due.Sub(w.Failing) > giveUpAfter {
		o.Result = store.GivenUp
	}
	return true
}

// complete says to the store what became of a write.
func (s *Settler) complete(ctx context.Context, w *write) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.pending.Complete(ctx, time.Now(), w.PendingWrite, *w.outcome)
}
