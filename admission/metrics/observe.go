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

// ConnectionRefused counts a connection that was closed above the bound.
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

// The bounds of namespaces and, in each, of policies and quotas with label values of their own; and how long one must
// be idle before another may replace it.
const (
	labelledNamespaces = 200
	labelledRules      = 16
	labelledFor        = time.Hour
)

// eventMetrics count Event writes by where they are and what decided.
type eventMetrics struct {
	now               func() time.Time
	namespaces, rules *bounded

	events     *prometheus.CounterVec
	warnings   *prometheus.CounterVec
	unreadable *prometheus.CounterVec
	errors     *prometheus.CounterVec
	full       *prometheus.CounterVec
}

func newEventMetrics(made factory) *eventMetrics {
	e := &eventMetrics{
		now: time.Now,
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
		full: made.counters("eventquota_store_full_total",
			"Event writes that a store did not decide, as pending writes of their namespace fill its part of the memory, by the namespace of the Event.",
			"event_namespace"),
	}
	e.rules = newBounded(labelledRules, func(namespace, rule string) {
		e.ended(prometheus.Labels{"event_namespace": namespace, "policy": rule}, e.events, e.errors)
	})
	e.namespaces = newBounded(labelledNamespaces, func(_, namespace string) {
		e.rules.forget(namespace)
		e.ended(prometheus.Labels{"event_namespace": namespace}, e.events, e.errors, e.warnings, e.unreadable, e.full)
	})
	return e
}

// ended deletes series. One that comes back begins at 0, which Prometheus treats as a restart.
func (*eventMetrics) ended(labels prometheus.Labels, all ...*prometheus.CounterVec) {
	for _, one := range all {
		one.DeletePartialMatch(labels)
	}
}

// decided counts a write that was not merely audited.
func (e *eventMetrics) decided(d *admission.Decided) {
	now := e.now()
	namespace := e.namespaces.label(now, "", d.Request.Namespace)
	rule := e.rules.label(now, namespace, d.Rule.Name)
	e.events.WithLabelValues(namespace, rule, d.Verdict.String(), d.Bucket).Inc()
	warnings := e.warnings.WithLabelValues(namespace) // 0 at first, or Prometheus misses the first increase
	if d.Request.Object.Type == corev1.EventTypeWarning && (d.Verdict == store.Drop || d.Verdict == store.Deny) {
		warnings.Inc()
	}
	if d.Request.Unreadable != nil {
		e.unreadable.WithLabelValues(namespace).Inc()
	}
	for _, err := range d.Errors {
		e.errors.WithLabelValues(namespace, e.rules.label(now, namespace, err.Rule.Name)).Inc()
	}
}

// filled counts a write that found a store full of what is pending of its namespace.
func (e *eventMetrics) filled(namespace string) {
	e.full.WithLabelValues(e.namespaces.label(e.now(), "", namespace)).Inc()
}

// other is the label value of everything without its own.
const other = "other"

// bounded gives label values: some values of each scope have their own, all others of that scope are other. A new one
// takes the place of one that was not used for labelledFor. So no client can make more series than the bound, and
// no scope takes the places of another. It may be used concurrently and allocates only for a new value.
type bounded struct {
	most   int                       // in each scope
	ended  func(scope, value string) // called when a value was replaced
	mu     sync.Mutex                // held for tens of nanoseconds
	scopes map[string]*scopeOfLabels
}

type scopeOfLabels struct {
	values map[string]*labelled
	looked time.Time // when none was found that could be replaced
}

type labelled struct {
	label string
	used  time.Time
}

// newBounded makes a bounded. Its callers bound the number of scopes.
func newBounded(most int, ended func(scope, value string)) *bounded {
	return &bounded{most: most, ended: ended, scopes: map[string]*scopeOfLabels{}}
}

// label is the label value of value. It keeps neither string.
func (b *bounded) label(now time.Time, scope, value string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.scopes[scope]
	if s == nil {
		s = &scopeOfLabels{values: map[string]*labelled{}}
		b.scopes[strings.Clone(scope)] = s
	}
	if v := s.values[value]; v != nil {
		v.used = now
		return v.label
	}
	if len(s.values) >= b.most && !b.end(now, scope, s) {
		return other
	}
	v := &labelled{label: strings.Clone(value), used: now}
	s.values[v.label] = v
	return v.label
}

// end removes the value that was used longest ago, if it was idle for long enough, and reports whether it
// was. It looks once a minute.
func (b *bounded) end(now time.Time, scope string, s *scopeOfLabels) bool {
	if now.Sub(s.looked) < time.Minute {
		return false
	}
	oldest := &labelled{used: now}
	for _, v := range s.values {
		if v.used.Before(oldest.used) {
			oldest = v
		}
	}
	if now.Sub(oldest.used) < labelledFor {
		s.looked = now
		return false
	}
	delete(s.values, oldest.label)
	b.ended(scope, oldest.label)
	return true
}

func (b *bounded) forget(scope string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.scopes, scope)
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
	filled func(namespace string)
}

// observedQueue is the side of a store that a settler works on, measured.
type observedQueue struct {
	store.Queue

	claim, complete *storeStep
}

// Observe is a store whose calls are measured under a name.
func (m *Store) Observe(name string, s store.Store) store.Store {
	return &observedStore{s, m.step(name, "decide"), m.filled}
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
	if errors.Is(err, store.ErrFull) {
		o.filled(w.Namespace)
	}
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
