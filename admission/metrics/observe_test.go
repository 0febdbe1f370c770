package metrics

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/test/prom"
)

func decided(namespace, owner, kind string, v store.Verdict) admission.DecidedWrite {
	return admission.DecidedWrite{
		Rule: &policy.Rule{Name: owner}, Verdict: v,
		Request: &admission.Request{Request: policy.Request{Namespace: namespace}, Object: &corev1.Event{Type: kind}},
	}
}

func TestEventsAreCountedByNamespaceAndRule(t *testing.T) {
	t.Parallel()
	m := New("devel")
	count := m.ObserveDecision
	audited := decided("shop", "new", "Warning", store.Drop)
	audited.Audited = true
	unreadable := decided("odd", "own", "", store.Drop)
	unreadable.Request.DecodeError = errors.New("no Event")
	for _, d := range []admission.DecidedWrite{
		decided("shop", "default", "Normal", store.Admit),
		decided("shop", "default", "Normal", store.Admit),
		decided("shop", "default", "Warning", store.Merge),
		decided("shop", "own", "Warning", store.Drop),
		decided("shop", "own", "Normal", store.Drop),
		decided("bank", "own", "Warning", store.Deny),
		decided("calm", "default", "Warning", store.Admit),
		unreadable,
		audited, // counted only in eventquota_audited_decisions_total
	} {
		count(d)
	}
	prom.Want(t, m.Gatherer, "eventquota_events_total",
		`{event_namespace="shop",outcome="admit",policy="default"} 2`,
		`{event_namespace="shop",outcome="merge",policy="default"} 1`,
		`{event_namespace="shop",outcome="drop",policy="own"} 2`,
		`{event_namespace="bank",outcome="deny",policy="own"} 1`,
		`{event_namespace="calm",outcome="admit",policy="default"} 1`,
		`{event_namespace="odd",outcome="drop",policy="own"} 1`)
	prom.Want(t, m.Gatherer, "eventquota_warnings_dropped_total",
		`{event_namespace="shop"} 1`, `{event_namespace="bank"} 1`, `{event_namespace="calm"} 0`, `{event_namespace="odd"} 0`)
	prom.Want(t, m.Gatherer, "eventquota_unreadable_events_total", `{event_namespace="odd"} 1`)
	prom.Want(t, m.Gatherer, "eventquota_audited_decisions_total", `{outcome="drop"} 1`)
}

func TestBusiestCountsEachDecision(t *testing.T) {
	t.Parallel()
	m := New("devel")
	m.Busiest = busiest.NewCounter("replica", time.Now(), busiest.MaxTracked)
	m.ObserveDecision(decided("shop", "default", "Warning", store.Drop))
	if total := m.Busiest.Snapshot(time.Now()).Rankings[busiest.Namespace].Total; total != (busiest.Counts{Dropped: 1}) {
		t.Errorf("got counts %+v, want one dropped Event", total)
	}
}

// TestSeriesAreBounded checks the bounds of namespaces and of policies, and that a tenant with many policies uses up only
// the label values of its own namespace.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	m := New("devel")
	count := m.ObserveDecision
	for i := range 3 * maxRuleLabels {
		count(decided("greedy", fmt.Sprint("policy-", i), "Normal", store.Admit))
	}
	for i := range 3 * maxNamespaceLabels {
		count(decided(fmt.Sprint("namespace-", i), "default", "Normal", store.Admit))
	}
	// Namespace greedy has maxRuleLabels policies and "other". All other namespaces, and the namespace "other", have one
	// policy each.
	if got, want := len(prom.Values(t, m.Gatherer, "eventquota_events_total")), maxRuleLabels+1+maxNamespaceLabels-1+1; got != want {
		t.Errorf("got %d series, want %d", got, want)
	}
	if got, want := prom.Sum(t, m.Gatherer, "eventquota_events_total"), float64(3*maxRuleLabels+3*maxNamespaceLabels); got != want {
		t.Errorf("got %v Events, want %v", got, want)
	}
	if all := prom.Lines(t, m.Gatherer, "eventquota_events_total"); !strings.Contains(all, `event_namespace="namespace-7",outcome="admit",policy="default"} 1`) {
		t.Errorf("a policy has no label value of its own because another namespace has many policies:\n%s", all)
	}
	var all sync.WaitGroup
	for i := range 3 * maxRuleLabels {
		all.Go(func() {
			count(decided(fmt.Sprint("namespace-", 2*maxNamespaceLabels+i), fmt.Sprint("policy-", i), "Normal", store.Admit))
		})
	}
	all.Wait()
	if got, want := len(prom.Values(t, m.Gatherer, "eventquota_events_total")), 2*maxRuleLabels+1+maxNamespaceLabels; got != want {
		t.Errorf(`got %d series with many policies in namespace "other", want %d`, got, want)
	}
}

func TestFailedConditionsAreCounted(t *testing.T) {
	t.Parallel()
	m := New("devel")
	failed := func(name string) *policy.EvaluationError {
		return &policy.EvaluationError{Rule: &policy.Rule{Name: name}, Field: `condition "team"`, Err: errors.New("no such key: team")}
	}
	for range 2 {
		d := decided("shop", "default", "Normal", store.Admit)
		d.Errors = []*policy.EvaluationError{failed("EventPolicy shop/own"), failed("ClusterEventQuota ceiling")}
		m.ObserveDecision(d)
	}
	prom.Want(t, m.Gatherer, "eventquota_condition_errors_total",
		`{event_namespace="shop",policy="EventPolicy shop/own"} 2`, `{event_namespace="shop",policy="ClusterEventQuota ceiling"} 2`)
}

// TestIdleNamespaceLabelsAreEvicted checks that namespaces in use keep their label values, and that all series of an evicted
// one are deleted.
func TestIdleNamespaceLabelsAreEvicted(t *testing.T) {
	t.Parallel()
	m, now := New("devel"), time.Now()
	m.events.now = func() time.Time { return now }
	namespace := func(i int) string { return fmt.Sprint("namespace-", i) }
	series := func(name string) string { return prom.Lines(t, m.Gatherer, name) }
	for i := range maxNamespaceLabels {
		d := decided(namespace(i), "default", "Warning", store.Drop)
		d.Errors = []*policy.EvaluationError{{Rule: &policy.Rule{Name: "own"}, Field: `condition "team"`, Err: errors.New("no such key: team")}}
		m.ObserveDecision(d)
	}
	for _, wait := range []time.Duration{labelIdleTime / 2, labelIdleTime/2 - time.Second} {
		now = now.Add(wait)
		m.ObserveDecision(decided("early", "default", "Normal", store.Admit))
		for i := range maxNamespaceLabels - 2 {
			m.ObserveDecision(decided(namespace(i), "default", "Normal", store.Admit))
		}
	}
	now = now.Add(time.Minute)
	for _, name := range []string{"new", "newer", "newest"} {
		m.ObserveDecision(decided(name, "default", "Normal", store.Admit))
	}
	for name, want := range map[string]bool{
		"early": false, "new": true, "newer": true, "newest": false, "other": true,
		namespace(0): true, namespace(maxNamespaceLabels - 3): true, namespace(maxNamespaceLabels - 2): false, namespace(maxNamespaceLabels - 1): false,
	} {
		if is := strings.Contains(series("eventquota_events_total"), fmt.Sprintf("event_namespace=%q", name)); is != want {
			t.Errorf("namespace %s has a label value of its own: %t, want %t", name, is, want)
		}
	}
	for _, metric := range []string{"eventquota_warnings_dropped_total", "eventquota_condition_errors_total"} {
		if all := series(metric); strings.Contains(all, namespace(maxNamespaceLabels-1)) || !strings.Contains(all, namespace(0)) {
			t.Errorf("series of an evicted namespace are left, or those of one in use are not:\n%s", all)
		}
	}
	m.ObserveDecision(decided(namespace(maxNamespaceLabels-1), "default", "Normal", store.Admit)) // now counted as "other"
	for i := range maxRuleLabels {
		m.ObserveDecision(decided("new", fmt.Sprint("policy-", i), "Normal", store.Admit))
	}
	now = now.Add(labelIdleTime)
	m.ObserveDecision(decided("new", "another policy", "Normal", store.Admit))
	if all := series("eventquota_events_total"); !strings.Contains(all, `event_namespace="new",outcome="admit",policy="another policy"`) {
		t.Errorf("a new policy does not replace an idle one:\n%s", all)
	}
}

// TestCountingDoesNotAllocate counts namespaces with a label value of their own and others.
func TestCountingDoesNotAllocate(t *testing.T) {
	m := New("devel")
	for i := range 2 * maxNamespaceLabels {
		d := decided(fmt.Sprint("namespace-", i), "default", "Normal", store.Merge)
		m.events.count(&d)
	}
	known := decided("namespace-1", "default", "Warning", store.Drop)
	other := decided("namespace-300", "default", "Warning", store.Drop)
	count := func() {
		m.events.count(&known)
		m.events.count(&other)
		m.ObserveReview("mutate", admission.Merged, time.Millisecond)
	}
	count()
	if n := testing.AllocsPerRun(1000, count); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}
