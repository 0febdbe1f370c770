package policy_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
)

func TestConditionsReadEventAndRequest(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	message := func(bytes int) func(*corev1.Event, *policy.Request) {
		return func(e *corev1.Event, _ *policy.Request) { e.Message = strings.Repeat("a", bytes) }
	}
	labeled := func(labels int, value string) func(*corev1.Event, *policy.Request) {
		return func(e *corev1.Event, _ *policy.Request) {
			e.Labels = map[string]string{"a": "b", "long": value}
			for i := len(e.Labels); i < labels; i++ {
				e.Labels[fmt.Sprint(i)] = ""
			}
		}
	}
	elsewhere := func(namespace string) func(*corev1.Event, *policy.Request) {
		return func(_ *corev1.Event, r *policy.Request) { r.Namespace = namespace }
	}
	partial := elsewhere("partial")
	first := func(year int) func(*corev1.Event, *policy.Request) {
		return func(e *corev1.Event, _ *policy.Request) {
			e.FirstTimestamp = metav1.Date(year, 12, 31, 23, 59, 59, 0, time.UTC)
		}
	}
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
		{says: "a part of a text", expression: "event.message.find('[a-z]+') == 'ack'", holds: true},
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
		{says: "an annotation of a namespace that has more than are known", expression: "namespaceObject.metadata.annotations['owner'] == 'c'", change: partial, holds: true},
		{says: "an annotation that may be there", expression: "'team' in namespaceObject.metadata.annotations", change: partial, fails: "the namespace has more annotations than are known"},
		{says: "a label that may be there", expression: "'other' in namespaceObject.metadata.labels", change: partial, fails: "the namespace has more labels than are known"},
		{says: "the name of the namespace", expression: "namespaceObject.metadata.name == 'a'", holds: true},
		{says: "the name of a namespace that is not known", expression: "namespaceObject.metadata.name == 'new'", change: elsewhere("new"), holds: true},
		{says: "a label of a namespace that is not known", expression: "!('pci' in namespaceObject.metadata.labels)", change: elsewhere("new"), fails: "labels of the namespace are not known yet"},
		{says: "an annotation of a namespace of which only rules are known", expression: "!('pci' in namespaceObject.metadata.annotations)", change: elsewhere("ruled"), fails: "annotations of the namespace are not known yet"},
		{says: "an annotation that may be the only one", expression: "has(namespaceObject.metadata.annotations) && 'strict' in namespaceObject.metadata.annotations", change: elsewhere("none"), fails: "more annotations than are known"},
		{says: "no label, and there may be some", expression: "!has(namespaceObject.metadata.labels) || 'strict' in namespaceObject.metadata.labels", change: elsewhere("none"), fails: "more labels than are known"},
		{says: "a text of 4 KiB", expression: "event.message.size() == 4096", change: message(4096), holds: true},
		{says: "a text that is longer", expression: "event.message.startsWith('a')", change: message(4097), fails: "a text has 4097 bytes, and conditions read at most 4096"},
		{says: "a text that is longer but not asked for", expression: "event.reason == 'BackOff' || event.message.startsWith('b')", change: message(4097), holds: true},
		{says: "a text that is longer where the rest settles it", expression: "event.message.startsWith('a') && event.reason == 'Pulled'", change: message(4097)},
		{says: "the length of a message", expression: "event.messageBytes == 100000", change: message(100_000), holds: true},
		{says: "the length of a message is in bytes", expression: "event.messageBytes == 3 && size(event.message) == 1", change: func(e *corev1.Event, _ *policy.Request) { e.Message = "€" }, holds: true},
		{says: "a text that is none", expression: "event.message != ''", change: func(e *corev1.Event, _ *policy.Request) { e.Message = "\xff" }, fails: "not valid UTF-8"},
		{says: "64 labels", expression: "event.metadata.labels.size() == 64 && event.metadata.labels.exists(k, k == '63')", change: labeled(64, ""), holds: true},
		{says: "65 labels", expression: "'a' in event.metadata.labels", change: labeled(65, ""), fails: "a map has 65 entries, and conditions read at most 64"},
		{says: "a label beside one that is longer", expression: "event.metadata.labels['a'] == 'b' && 'long' in event.metadata.labels", change: labeled(2, strings.Repeat("a", 4097)), holds: true},
		{says: "a label that is longer", expression: "event.metadata.labels['long'] != ''", change: labeled(2, strings.Repeat("a", 4097)), fails: "a text has 4097 bytes"},
		{says: "a label with a name of 512 bytes", expression: "event.metadata.labels.exists(k, k.size() == 512)", change: func(e *corev1.Event, _ *policy.Request) {
			e.Labels = map[string]string{strings.Repeat("a", 512): ""}
		}, holds: true},
		{says: "a label with a longer name", expression: "'a' in event.metadata.labels", change: func(e *corev1.Event, _ *policy.Request) {
			e.Labels = map[string]string{strings.Repeat("a", 513): "", "a": ""}
		}, fails: "a name in a map has 513 bytes, and conditions read at most 512"},
		{says: "65 groups", expression: "'a' in request.userInfo.groups", change: func(_ *corev1.Event, r *policy.Request) {
			r.UserInfo.Groups = make([]string, 65)
		}, fails: "a list has 65 entries"},
		{says: "a time that is not set", expression: "event.firstTimestamp < timestamp('2030-01-01T00:00:00Z')", fails: "a time is not set"},
		{says: "whether a time is set", expression: "has(event.firstTimestamp)"},
		{says: "the first year", expression: "event.firstTimestamp.getFullYear() == 1970", change: first(1970), holds: true},
		{says: "a year before", expression: "event.firstTimestamp.getFullYear() == 1969", change: first(1969), fails: "a time is in the year 1969, and conditions read times from 1970 to 9999"},
		{says: "the last year elsewhere", expression: "event.firstTimestamp.getFullYear() == 9999", change: func(e *corev1.Event, _ *policy.Request) {
			e.FirstTimestamp = metav1.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("west", -3600))
		}, fails: "a time is in the year 10000"},
		{says: "the last year", expression: "event.firstTimestamp.getFullYear() == 9999", change: first(9999), holds: true},
		{says: "a year after", expression: "event.firstTimestamp.getFullYear() == 10000", change: first(10000), fails: "a time is in the year 10000"},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			p := w.clusterPolicy(t, "p", fmt.Sprintf("match: {conditions: [{name: c, expression: %q}]}", test.expression))
			e, r := backOff(), create()
			if test.change != nil {
				test.change(e, r)
			}
			n := policy.Namespace{Labels: labels.Set{"team": "b"}, Annotations: map[string]string{"owner": "c"}}
			namespaces := map[string]policy.Namespace{"a": n}
			n.PartialLabels, n.PartialAnnotations = true, true
			namespaces["partial"] = n
			namespaces["none"] = policy.Namespace{Labels: labels.Set{}, PartialLabels: true, PartialAnnotations: true}
			namespaces["ruled"] = policy.Namespace{}
			g := policy.NewSet(policy.Default(), policy.Rules{Policies: []*policy.Policy{p}}, namespaces).Resolve(t.Context(), r.Namespace, e, r)
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

func TestFalseConditionMeansNoMatch(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	p := w.clusterPolicy(t, "p", "match: {conditions: [{name: fails, expression: \"event.metadata.labels['a'] == 'b'\"}, {name: never, expression: 'false'}]}")
	g := policy.NewSet(policy.Default(), policy.Rules{Policies: []*policy.Policy{p}}, nil).Resolve(t.Context(), "a", backOff(), create())
	if g.Policy == p || len(g.Errors) != 0 {
		t.Errorf("%s governs, errors %v", g.Policy.Name, g.Errors)
	}
}

func TestEvaluationStopsWithContext(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	p := w.clusterPolicy(t, "p", "match: {conditions: [{name: c, expression: 'true'}]}")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := policy.NewSet(policy.Default(), policy.Rules{Policies: []*policy.Policy{p}}, nil).Resolve(ctx, "a", backOff(), create())
	if g.Policy == p || len(g.Errors) != 1 || !errors.Is(g.Errors[0], context.Canceled) {
		t.Errorf("%s governs, errors %v", g.Policy.Name, g.Errors)
	}
}

// TestConcurrentEvaluationsAreLimited holds that no more are evaluated at a time than there are processors, and that one that waits for
// its turn waits no longer than its call.
func TestConcurrentEvaluationsAreLimited(t *testing.T) {
	t.Parallel()
	c, err := policy.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	w := ruleBuilder{c}
	p := w.clusterPolicy(t, "p", "match: {conditions: [{name: c, expression: 'true'}]}")
	s := policy.NewSet(policy.Default(), policy.Rules{Policies: []*policy.Policy{p}}, nil)
	giveBack := policy.OccupyEvaluations(p)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan policy.Resolution)
	go func() { done <- s.Resolve(ctx, "a", backOff(), create()) }()
	cancel()
	if g := <-done; g.Policy == p || len(g.Errors) != 1 || !errors.Is(g.Errors[0], context.Canceled) {
		t.Errorf("without a turn %s governs, errors %v", g.Policy.Name, g.Errors)
	}
	giveBack()
	for range 2 * runtime.GOMAXPROCS(0) {
		if g := s.Resolve(t.Context(), "a", backOff(), create()); g.Policy != p {
			t.Errorf("%s governs, errors %v", g.Policy.Name, g.Errors)
		}
	}
}

func TestRulesShareExpressionResults(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	var rules policy.Rules
	for i := range 70 {
		rules.Policies = append(rules.Policies, w.clusterPolicy(t, fmt.Sprintf("p%02d", i), fmt.Sprintf("match: {conditions: [{name: c, expression: \"event.reason == '%d'\"}]}", i%35)))
	}
	rules.Policies = append(rules.Policies, w.clusterPolicy(t, "q", "match: {conditions: [{name: c, expression: \"event.reason == 'BackOff'\"}]}"))
	s := policy.NewSet(policy.Default(), rules, nil)
	if g := s.Resolve(t.Context(), "a", backOff(), create()); g.Policy != rules.Policies[70] || len(g.Errors) != 0 {
		t.Errorf("%s governs, errors %v", g.Policy.Name, g.Errors)
	}
	if n := policy.Evaluations(t.Context(), s, "a", backOff(), create()); n != 36 {
		t.Errorf("%d evaluations, want one for each of 36 expressions", n)
	}
}

// TestListsAndMessagesAreCheckedFirst has rules whose lists or messages already decide that they do not match. Their conditions are not
// evaluated.
func TestListsAndMessagesAreCheckedFirst(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	for _, match := range []string{"types: [Normal]", "reasons: [a]", "controllers: [a]", "kinds: [a]", "messages: [a]"} {
		s := policy.NewSet(policy.Default(), policy.Rules{Policies: []*policy.Policy{
			w.clusterPolicy(t, "p", "match: {"+match+", conditions: [{name: c, expression: 'true'}]}"),
		}}, nil)
		if n := policy.Evaluations(t.Context(), s, "a", backOff(), create()); n != 0 {
			t.Errorf("%s: %d evaluations", match, n)
		}
	}
}
