package metrics

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

var _ admission.Recorder = (*Metrics)(nil)

// Reviewed implements admission.Recorder.
func (m *Metrics) Reviewed(handler string, o admission.Outcome, cut bool, took time.Duration) {
	m.took.WithLabelValues(handler).Observe(took.Seconds())
	if o == "" {
		return
	}
	m.decided.WithLabelValues(handler, string(o)).Inc()
	if cut {
		m.truncated.Inc()
	}
	switch o {
	case admission.Merged, admission.Dropped, admission.Denied, admission.Overloaded:
		m.saved.Inc()
	case admission.Admitted, admission.Aggregated, admission.Ignored, admission.Undecided:
	}
}

// ConnectionRefused counts a connection that was closed for want of a place.
func (m *Metrics) ConnectionRefused() { m.refused.Inc() }

// Decided implements admission.Recorder.
func (m *Metrics) Decided(d admission.Decided) {
	if m.Busiest != nil {
		m.Busiest.Decided(&d)
	}
	if d.Audited {
		m.audited.WithLabelValues(d.Verdict.String()).Inc()
		return
	}
	m.events.decided(&d)
}

// How many namespaces and, in each, how many policies and quotas have label values of their own.
const (
	labelledNamespaces = 200
	labelledRules      = 16
)

// eventMetrics count Event writes by where they are and what decided.
type eventMetrics struct {
	namespaces, rules *bounded

	events     *prometheus.CounterVec
	warnings   *prometheus.CounterVec
	unreadable *prometheus.CounterVec
	errors     *prometheus.CounterVec
}

func newEventMetrics(made factory) *eventMetrics {
	return &eventMetrics{
		namespaces: newBounded(labelledNamespaces),
		rules:      newBounded(labelledRules),
		events: made.counters("eventquota_events_total",
			"Event writes decided, by the namespace of the Event, the policy or quota that decided, outcome (admit, merge, drop or deny) and, where one had no token, bucket (\"spam filter\", or the name of a quota's limit).",
			"event_namespace", "policy", "outcome", "bucket"),
		warnings: made.counters("eventquota_warnings_dropped_total",
			"Event writes of type Warning that were dropped or denied, by the namespace of the Event.",
			"event_namespace"),
		unreadable: made.counters("eventquota_unreadable_events_total",
			"Event writes decided without the Event's content, as the review was too long, found no place or could not be decoded, by the namespace of the Event.",
			"event_namespace"),
		errors: made.counters("eventquota_condition_errors_total",
			"Conditions that could not be evaluated for an Event write, by the namespace of the Event and the policy or quota that has them, which does not match then.",
			"event_namespace", "policy"),
	}
}

// decided counts a write that was decided for good.
func (e *eventMetrics) decided(d *admission.Decided) {
	namespace := e.namespaces.label("", d.Request.Namespace)
	rule := e.rules.label(namespace, d.Rule.Name)
	e.events.WithLabelValues(namespace, rule, d.Verdict.String(), d.Bucket).Inc()
	warnings := e.warnings.WithLabelValues(namespace) // 0 before the first: Prometheus sees no increase from nothing
	if d.Request.Object.Type == corev1.EventTypeWarning && (d.Verdict == store.Drop || d.Verdict == store.Deny) {
		warnings.Inc()
	}
	if d.Request.Unreadable != nil {
		e.unreadable.WithLabelValues(namespace).Inc()
	}
	for _, err := range d.Errors {
		e.errors.WithLabelValues(namespace, e.rules.label(namespace, err.Rule.Name)).Inc()
	}
}

// other is the label value of all that has none of its own.
const other = "other"

// bounded gives label values: the first values of each scope keep their own, all others of that scope become other.
// So no client can make more series than the bound, and no scope takes the places of another. None is forgotten: a
// counter that ended would begin again at 0. It may be used concurrently and allocates only for a new value.
type bounded struct {
	most  int        // in each scope
	mu    sync.Mutex // held for tens of nanoseconds
	known map[scoped]string
	taken map[string]int // by scope
}

type scoped struct{ scope, value string }

// newBounded makes a bounded. Its callers bound the number of scopes.
func newBounded(most int) *bounded {
	return &bounded{most: most, known: map[scoped]string{}, taken: map[string]int{}}
}

// label is the label value of value. It keeps neither string.
func (b *bounded) label(scope, value string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if label, ok := b.known[scoped{scope, value}]; ok {
		return label
	}
	if b.taken[scope] >= b.most {
		return other
	}
	key := scoped{strings.Clone(scope), strings.Clone(value)}
	b.known[key] = key.value
	b.taken[key.scope]++
	return key.value
}

// step observes the calls of one step of one store.
func (m *Store) step(name, step string) *storeStep {
	with := prometheus.Labels{"store": name, "step": step}
	return &storeStep{took: m.took.With(with), errors: m.errors.MustCurryWith(with)}
}

type storeStep struct {
	took   prometheus.Observer
	errors *prometheus.CounterVec
}

// ended observes a call.
func (s *storeStep) ended(began time.Time, err error) {
	s.took.Observe(time.Since(began).Seconds())
	switch {
	case err == nil, errors.Is(err, context.Canceled): // the caller has left
	case errors.Is(err, store.ErrUnconfirmed):
		s.errors.WithLabelValues("unconfirmed").Inc()
	case errors.Is(err, store.ErrFull):
		s.errors.WithLabelValues("full").Inc()
	case errors.Is(err, context.DeadlineExceeded):
		s.errors.WithLabelValues("timeout").Inc()
	default:
		s.errors.WithLabelValues("other").Inc()
	}
}

// observedStore is a store whose calls are measured.
type observedStore struct {
	store.Store

	decide *storeStep
}

// observedQueue is the side of a store that a settler works on, measured.
type observedQueue struct {
	store.Queue

	claim, complete *storeStep
}

// Observe is a store whose calls are measured under a name.
func (m *Store) Observe(name string, s store.Store) store.Store {
	return &observedStore{s, m.step(name, "decide")}
}

// ObserveQueue is the side of a store that a settler works on, measured under a name.
func (m *Store) ObserveQueue(name string, q store.Queue) store.Queue {
	return &observedQueue{q, m.step(name, "claim"), m.step(name, "complete")}
}

// Decide implements store.Store.
func (o *observedStore) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	began := time.Now()
	d, err := o.Store.Decide(ctx, now, w, l)
	o.decide.ended(began, err)
	return d, err
}

// Claim implements store.Queue.
func (o *observedQueue) Claim(ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool) ([]store.PendingWrite, error) {
	began := time.Now()
	writes, err := o.Queue.Claim(ctx, now, ahead, n, claimed)
	o.claim.ended(began, err)
	return writes, err
}

// Complete implements store.Queue.
func (o *observedQueue) Complete(ctx context.Context, now time.Time, p store.PendingWrite, outcome store.Outcome) error {
	began := time.Now()
	err := o.Queue.Complete(ctx, now, p, outcome)
	o.complete.ended(began, err)
	return err
}
