package policy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
)

func TestConditionsReadTheEventAndTheRequest(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	large := func(e *corev1.Event, _ *policy.Request) { e.Message = strings.Repeat("a", 3<<20) }
	bare := func(e *corev1.Event, r *policy.Request) { *e, *r = corev1.Event{}, policy.Request{} }
	for _, test := range []struct {
		says, expression string
		change           func(*corev1.Event, *policy.Request)
		holds            bool
		fails            string
	}{
		{says: "a reason", expression: "event.reason == 'BackOff'", holds: true},
		{says: "another reason", expression: "event.reason == 'Pulled'"},
		{says: "a source", expression: "event.source.component == 'kubelet' && event.involvedObject.kind == 'Pod'", holds: true},
		{says: "a count is an integer", expression: "event.count >= 3 && event.count < 4", holds: true},
		{says: "a message by a regular expression", expression: "event.message.matches('^Back-off')", holds: true},
		{says: "a user", expression: "request.userInfo.username.startsWith('system:node:') && 'system:nodes' in request.userInfo.groups", holds: true},
		{says: "what else is known of a user", expression: "request.userInfo.extra['k'] == ['v']", holds: true},
		{says: "the rest of a request", expression: "request.name == 'web.1' && request.namespace == 'a' && request.operation == 'CREATE' && !request.dryRun && request.kind.kind == 'Event' && request.resource.resource == 'events'", holds: true},
		{says: "a dry run", expression: "request.dryRun", change: func(_ *corev1.Event, r *policy.Request) { r.DryRun = true }, holds: true},
		{says: "the API server's libraries", expression: "event.message.find('[a-z]+') == 'ack'", holds: true},
		{says: "a type that the Event does not have is empty", expression: "event.type != 'Warning' && event.reason == '' && event.count == 0 && event.source.host == '' && event.involvedObject.name == '' && event.metadata.name == '' && request.userInfo.username == ''", change: bare, holds: true},
		{says: "a series that is not there", expression: "has(event.series)"},
		{says: "a series that is there", expression: "has(event.series) && event.series.count > 1", change: func(e *corev1.Event, _ *policy.Request) {
			e.Series = &corev1.EventSeries{Count: 2}
		}, holds: true},
		{says: "a label that is not there fails", expression: "event.metadata.labels['a'] == 'b'", fails: "no such key: a"},
		{says: "whether a label is there", expression: "'a' in event.metadata.labels || has(event.metadata.labels)"},
		{says: "a controller by its source", expression: "event.controller == 'kubelet'", holds: true},
		{says: "a controller that has no source", expression: "event.controller == 'kopf'", change: func(e *corev1.Event, _ *policy.Request) {
			e.Source, e.ReportingController = corev1.EventSource{}, "kopf"
		}, holds: true},
		{says: "a time", expression: "event.lastTimestamp - event.firstTimestamp > duration('1m')", change: func(e *corev1.Event, _ *policy.Request) {
			e.FirstTimestamp, e.LastTimestamp = metav1.Unix(100, 0), metav1.Unix(200, 0)
		}, holds: true},
		{says: "a series that is not there is empty", expression: "event.series.count == 0 && event.related.name == ''", holds: true},
		{says: "a label that is there", expression: "event.metadata.labels['a'] == 'b'", change: func(e *corev1.Event, _ *policy.Request) {
			e.Labels = map[string]string{"a": "b"}
		}, holds: true},
		{says: "a label of the namespace", expression: "namespaceObject.metadata.labels['team'] == 'b'", holds: true},
		{says: "a label that the namespace has not", expression: "'other' in namespaceObject.metadata.labels"},
		{says: "an annotation of the namespace", expression: "namespaceObject.metadata.annotations['owner'] == 'c'", holds: true},
		{says: "an annotation that the namespace has not", expression: "'team' in namespaceObject.metadata.annotations"},
		{says: "the name of the namespace", expression: "namespaceObject.metadata.name == 'a'", holds: true},
		{says: "what is known of a namespace that is not", expression: "namespaceObject.metadata.name == 'new' && namespaceObject.metadata.labels.size() == 0 && namespaceObject.metadata.annotations.size() == 0", change: func(_ *corev1.Event, r *policy.Request) {
			r.Namespace = "new"
		}, holds: true},
		{says: "a large Event costs too much", expression: "event.message.matches('(a|b|c|d|e|f|g|h)*z')", change: large, fails: policy.ErrBudget.Error()},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			p := w.admins(t, "p", fmt.Sprintf("match: {conditions: [{name: c, expression: %q}]}", test.expression))
			e, r := backOff(), create()
			if test.change != nil {
				test.change(e, r)
			}
			namespaces := map[string]policy.Namespace{"a": {Labels: labels.Set{"team": "b"}, Annotations: map[string]string{"owner": "c"}}}
			g := policy.NewSet(policy.Default(), policy.Rules{Policies: []*policy.Policy{p}}, namespaces).For(t.Context(), r.Namespace, e, r)
			if holds := g.Policy == p; holds != test.holds {
				t.Errorf("holds: %v", holds)
			}
			if fails := len(g.Errors) > 0; fails != (test.fails != "") {
				t.Fatalf("errors: %v", g.Errors)
			}
			if test.fails != "" && (!strings.Contains(g.Errors[0].Error(), test.fails) || !strings.HasPrefix(g.Errors[0].Error(), `ClusterEventPolicy p: condition "c": `)) {
				t.Errorf("error %q, want it to say %q", g.Errors[0], test.fails)
			}
		})
	}
}

func TestAConditionThatIsFalseSettlesItAsInTheAPIServer(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	p := w.own(t, "p", "match: {conditions: [{name: fails, expression: \"event.metadata.labels['a'] == 'b'\"}, {name: never, expression: 'false'}]}")
	g := policy.NewSet(policy.Default(), policy.Rules{}, a([]*policy.Policy{p})).For(t.Context(), "a", backOff(), create())
	if g.Policy == p || len(g.Errors) != 0 {
		t.Errorf("%s governs, errors %v", g.Policy.Name, g.Errors)
	}
}

func TestAnEndedContextEndsEvaluation(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	p := w.own(t, "p", "match: {conditions: [{name: c, expression: 'event.message.split(\"\").all(x, x != \"z\")'}]}")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := backOff()
	e.Message = strings.Repeat("a", 10_000)
	g := policy.NewSet(policy.Default(), policy.Rules{}, a([]*policy.Policy{p})).For(ctx, "a", e, create())
	if g.Policy == p || len(g.Errors) != 1 || !errors.Is(g.Errors[0], context.Canceled) {
		t.Errorf("%s governs, errors %v", g.Policy.Name, g.Errors)
	}
}

func TestAConditionAfterManyOthersIsEvaluated(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	var own []*policy.Policy
	for i := range 70 {
		own = append(own, w.own(t, fmt.Sprintf("p%02d", i), fmt.Sprintf("match: {conditions: [{name: c, expression: \"event.reason == '%d'\"}]}", i)))
	}
	own = append(own, w.own(t, "q", "match: {conditions: [{name: c, expression: \"event.reason == 'BackOff'\"}]}"))
	g := policy.NewSet(policy.Default(), policy.Rules{}, a(own)).For(t.Context(), "a", backOff(), create())
	if last := own[len(own)-1]; g.Policy != last || len(g.Errors) != 0 {
		t.Errorf("%s governs, errors %v, want %s", g.Policy.Name, g.Errors, last.Name)
	}
}
