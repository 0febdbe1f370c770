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

// ObserveReview implements admission.Observer.
func (m *Metrics) ObserveReview(handler string, o admission.Outcome, took time.Duration) {
	m.duration.WithLabelValues(handler).Observe(took.Seconds())
	if o != "" {
		m.decisions.WithLabelValues(handler, string(o)).Inc()
	}
}

// ObserveDecision implements admission.Observer.
func (m *Metrics) ObserveDecision(d admission.DecidedWrite) {
	if m.Busiest != nil {
		m.Busiest.CountDecision(&d)
	}
	if d.Audited {
		m.audited.WithLabelValues(d.Verdict.String()).Inc()
		return
	}
	m.events.count(&d)
	if d.OverflowQuota != nil {
		m.Store.Overflow.WithLabelValues("bucket").Inc()
	}
	if d.OverflowPolicy != nil {
		m.Store.Overflow.WithLabelValues("register").Inc()
	}
}

// maxNamespaceLabels bounds the namespaces with a label value of their own, and maxRuleLabels the policies and quotas in each
// of them. A value that is idle for labelIdleTime may be replaced by another.
const (
	maxNamespaceLabels = 200
	maxRuleLabels      = 16
	labelIdleTime      = time.Hour
)

// eventMetrics count Event writes by namespace, and by the policy or quota that decided.
type eventMetrics struct {
	now        func() time.Time
	mu         sync.Mutex // guards namespaces; held for tens of nanoseconds
	namespaces *labelSet

	events     *prometheus.CounterVec
	warnings   *prometheus.CounterVec
	unreadable *prometheus.CounterVec
	errors     *prometheus.CounterVec
	// undelivered is incremented by Sink.
	undelivered *prometheus.CounterVec
}

func newEventMetrics(made factory) *eventMetrics {
	return &eventMetrics{
		now:        time.Now,
		namespaces: newLabelSet(maxNamespaceLabels),
		events: made.counters("eventquota_events_total",
			"Decided Event writes, by namespace of the Event, policy or quota that decided, and outcome (admit, aggregate, merge, drop or deny).",
			"event_namespace", "policy", "outcome"),
		warnings: made.counters("eventquota_warnings_dropped_total",
			"Event writes of type Warning that were dropped or denied, by namespace of the Event.",
			"event_namespace"),
		unreadable: made.counters("eventquota_unreadable_events_total",
			"Event writes decided without the content of the Event, because the review was too long or could not be decoded, by namespace of the Event.",
			"event_namespace"),
		errors: made.counters("eventquota_condition_errors_total",
			"Conditions and globs that could not be evaluated for an Event write, by namespace of the Event and policy or quota. A policy does not match then, and a quota applies.",
			"event_namespace", "policy"),
		undelivered: made.counters("eventquota_sink_undelivered_total",
			"Occurrences of Events whose copy was not delivered to an output of the sink (otlp or file), by namespace of the Event and reason (full, refused, unanswered or stopped). An unanswered copy may have been delivered.",
			"event_namespace", "output", "reason"),
	}
}

// count counts a decision that is not Audited.
func (e *eventMetrics) count(d *admission.DecidedWrite) {
	namespace, rule := e.labels(d.Request.Namespace, d.Rule.Name)
	e.events.WithLabelValues(namespace, rule, d.Verdict.String()).Inc()
	warnings := e.warnings.WithLabelValues(namespace) // create it at 0: otherwise Prometheus misses the first increase
	if d.Request.Object.Type == corev1.EventTypeWarning && (d.Verdict == store.Drop || d.Verdict == store.Deny) {
		warnings.Inc()
	}
	if d.Request.DecodeError != nil {
		e.unreadable.WithLabelValues(namespace).Inc()
	}
	for _, err := range d.Errors {
		e.errors.WithLabelValues(e.labels(d.Request.Namespace, err.Rule.Name)).Inc()
	}
}

// labels returns the label values of a namespace and of a policy or quota in it.
func (e *eventMetrics) labels(namespace, rule string) (namespaceLabel, ruleLabel string) {
	now := e.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.entry(now, namespace)
	if n.rules == nil {
		n.rules = newLabelSet(maxRuleLabels)
	}
	r := n.rules.entry(now, rule, func(label string) {
		e.deleteSeries(prometheus.Labels{"event_namespace": n.value, "policy": label}, e.events, e.errors)
	})
	return n.value, r.value
}

// namespace returns the label value of a namespace.
func (e *eventMetrics) namespace(namespace string) string {
	now := e.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.entry(now, namespace).value
}

// entry returns the label entry of a namespace. e.mu is held.
func (e *eventMetrics) entry(now time.Time, namespace string) *labelEntry {
	return e.namespaces.entry(now, namespace, func(label string) {
		e.deleteSeries(prometheus.Labels{"event_namespace": label}, e.events, e.errors, e.warnings, e.unreadable, e.undelivered)
	})
}

// deleteSeries deletes the series with labels. A series that is created again starts at 0, which Prometheus treats as a
// counter reset.
func (*eventMetrics) deleteSeries(labels prometheus.Labels, counters ...*prometheus.CounterVec) {
	for _, c := range counters {
		c.DeletePartialMatch(labels)
	}
}

// labelSet bounds label values: up to limit values are used as they are, and all others share the value "other". A new value
// replaces one that was idle for labelIdleTime. So clients cannot create more series than the bound, and no namespace
// displaces one that is in use. It allocates only for a new value.
type labelSet struct {
	limit    int
	entries  map[string]*labelEntry
	shared   *labelEntry
	searched time.Time // the last search that found no idle value
}

// labelEntry is a label value. That of a namespace also has the label values of policies and quotas in it.
type labelEntry struct {
	value string
	used  time.Time
	rules *labelSet
}

func newLabelSet(limit int) *labelSet {
	return &labelSet{limit: limit, entries: map[string]*labelEntry{}, shared: &labelEntry{value: "other"}}
}

// entry returns the entry for a value, which it copies if it keeps it. evicted is called with the value that was replaced, if any.
func (s *labelSet) entry(now time.Time, value string, evicted func(label string)) *labelEntry {
	l := s.entries[value]
	if l == nil {
		if len(s.entries) >= s.limit && !s.evictIdle(now, evicted) {
			return s.shared
		}
		l = &labelEntry{value: strings.Clone(value)}
		s.entries[l.value] = l
	}
	l.used = now
	return l
}

// evictIdle removes the least recently used value if it was idle for labelIdleTime, and reports whether it removed one. After a
// search that finds none, it searches again only after a minute.
func (s *labelSet) evictIdle(now time.Time, evicted func(label string)) bool {
	if now.Sub(s.searched) < time.Minute {
		return false
	}
	oldest := &labelEntry{used: now}
	for _, l := range s.entries {
		if l.used.Before(oldest.used) {
			oldest = l
		}
	}
	if now.Sub(oldest.used) < labelIdleTime {
		s.searched = now
		return false
	}
	delete(s.entries, oldest.value)
	evicted(oldest.value)
	return true
}

// newStep returns the observer of one step of a store.
func (m *Store) newStep(name, step string) *storeStep {
	labels := prometheus.Labels{"store": name, "step": step}
	return &storeStep{duration: m.duration.With(labels), errors: m.errors.MustCurryWith(labels)}
}

// storeStep observes the calls of one step of a store.
type storeStep struct {
	duration prometheus.Observer
	errors   *prometheus.CounterVec
}

func (s *storeStep) observe(began time.Time, err error) {
	s.duration.Observe(time.Since(began).Seconds())
	switch {
	case err == nil, errors.Is(err, context.Canceled): // the caller stopped waiting
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

// Observe returns a store that measures the calls of s under a name.
func (m *Store) Observe(name string, s store.Store) store.Store {
	return &observedStore{s, m.newStep(name, "decide")}
}

type observedStore struct {
	store.Store

	decide *storeStep
}

// Decide implements store.Store.
func (o *observedStore) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	began := time.Now()
	d, err := o.Store.Decide(ctx, now, w, l)
	o.decide.observe(began, err)
	return d, err
}

// ObserveQueue returns a queue that measures the calls of q under a name.
func (m *Store) ObserveQueue(name string, q store.Queue) store.Queue {
	return &observedQueue{q, m.newStep(name, "claim"), m.newStep(name, "complete")}
}

type observedQueue struct {
	store.Queue

	claim, complete *storeStep
}

// Claim implements store.Queue.
func (o *observedQueue) Claim(ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool) ([]store.PendingWrite, error) {
	began := time.Now()
	writes, err := o.Queue.Claim(ctx, now, ahead, n, claimed)
	o.claim.observe(began, err)
	return writes, err
}

// Complete implements store.Queue.
func (o *observedQueue) Complete(ctx context.Context, now time.Time, p store.PendingWrite, outcome store.Outcome) error {
	began := time.Now()
	err := o.Queue.Complete(ctx, now, p, outcome)
	o.complete.observe(began, err)
	return err
}
