package policy_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy"
)

const (
	// neverMatches is a condition that never holds.
	neverMatches  = "match: {conditions: [{name: c, expression: 'event.reason == \"None\"'}]}\n"
	oneTokenLimit = "limits: [{name: all, burst: 1, tokens: 1}]\n"
)

// TestUnknownMatchIsStrict has rules that match all, but for what of an Event is unknown, and beside them a quota of a higher
// precedence with the same limit.
func TestUnknownMatchIsStrict(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	condition := func(expression string) string {
		return fmt.Sprintf("match: {conditions: [{name: c, expression: %q}]}\n", expression)
	}
	unreadable := func(*corev1.Event) *corev1.Event { return nil }
	long := func(e *corev1.Event) *corev1.Event {
		e.Message = strings.Repeat("a", 5000)
		return e
	}
	for _, test := range []struct {
		says, match string
		change      func(*corev1.Event) *corev1.Event
		unreported  bool
	}{
		{says: "a time in the year 1", match: condition("event.lastTimestamp - event.firstTimestamp > duration('1m')"), change: func(e *corev1.Event) *corev1.Event {
			e.FirstTimestamp, e.LastTimestamp = metav1.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), metav1.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			return e
		}},
		{says: "a label that is not there", match: condition("event.metadata.labels['a'] == 'b'")},
		{says: "a number that overflows", match: condition("event.count * 9223372036854775807 > 0"), change: func(e *corev1.Event) *corev1.Event {
			e.Count = 2
			return e
		}},
		{says: "a long message", match: condition("event.message.endsWith('a')"), change: long},
		{says: "a glob and a long message", match: "match: {messages: ['*b*']}\n", change: long},
		{says: "a selector and a namespace that is not known", match: "match: {namespaceSelector: {matchLabels: {team: a}}}\n"},
		{says: "a selector by which others are not selected", match: "match: {namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}\n"},
		{says: "an Event that cannot be read", match: condition("event.reason == 'BackOff'"), change: unreadable, unreported: true},
		{says: "a dry run and an Event that cannot be read", match: condition("request.dryRun"), change: unreadable, unreported: true},
		{says: "a list and an Event that cannot be read", match: "match: {reasons: [BackOff]}\n", change: unreadable, unreported: true},
		{says: "a glob and an Event that cannot be read", match: "match: {messages: ['*']}\n", change: unreadable, unreported: true},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			quota, p := w.clusterQuota(t, "may", "precedence: 1\n"+test.match+oneTokenLimit), w.clusterPolicy(t, "p", "action: Exempt\n"+test.match)
			strict := w.clusterQuota(t, "strict", oneTokenLimit)
			e := backOff()
			if test.change != nil {
				e = test.change(e)
			}
			s := policy.NewSet(policy.Default(), policy.Rules{Policies: []*policy.Policy{p}, Quotas: []*policy.Quota{quota, strict}}, nil)
			g := s.Resolve(t.Context(), "a", e, create())
			if got := limits(g.Limits()); got != "may/all strict/all" || g.Policy.Name != "default" {
				t.Errorf("%s governs under %q, want the default policy under both quotas", g.Policy.Name, got)
			}
			if reported := len(g.Errors) == 2; reported == test.unreported {
				t.Errorf("errors %v", g.Errors)
			}
			if matches, err := policy.Matches(t.Context(), s, &quota.Rule, "a", e, create()); matches || (err == nil) != test.unreported {
				t.Errorf("it matches: %t, %v", matches, err)
			}
		})
	}
}

func TestCertainQuotaReplacesUncertainOne(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	s := policy.NewSet(policy.Default(), policy.Rules{Quotas: []*policy.Quota{
		w.clusterQuota(t, "ci", "precedence: 1\n"+oneTokenLimit), w.clusterQuota(t, "may", "match: {messages: ['*b*']}\n"+oneTokenLimit),
	}}, nil)
	e := backOff()
	e.Message = strings.Repeat("a", 5000)
	g := s.Resolve(t.Context(), "a", e, create())
	if got := limits(g.Limits()); got != "ci/all" {
		t.Errorf("limits %s", got)
	}
}

// TestConditionsUseLittleMemory has those that took 1.6 GiB and all of a processor before their cost was bounded.
func TestConditionsUseLittleMemory(t *testing.T) {
	w := newRuleBuilder(t)
	for _, expression := range []string{
		"event.message.replace('', event.message).size() == 0",
		"event.message.replace('', event.message).replace('', event.message).size() == 0",
		"event.message.split(' ').exists(w, w.startsWith('ci-'))",
		"event.message.split(' ', 64).exists(w, w.startsWith('ci-'))",
		"'%.999999f'.format([1.0]) == ''",
	} {
		made, err := w.compile(t, "ClusterEventPolicy", "", "p", fmt.Sprintf("match: {conditions: [{name: c, expression: %q}]}", expression))
		if err != nil {
			continue // it is refused
		}
		s := policy.NewSet(policy.Default(), made, nil)
		for _, text := range []string{strings.Repeat(" ", 4096), strings.Repeat(" ", 60<<10)} {
			e := backOff()
			e.Message = text
			if n := allocatedBytes(func() { s.Resolve(t.Context(), "a", e, create()) }); n > 1<<20 {
				t.Errorf("%s: %d bytes for a message of %d", expression, n, len(text))
			}
		}
	}
}

// allocatedBytes is how many bytes f allocates.
func allocatedBytes(f func()) uint64 {
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestRulesOverConditionBudgetAreExcluded has rules that each cost more than a sixth of what all may.
func TestRulesOverConditionBudgetAreExcluded(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	costly := func(n int) string {
		return fmt.Sprintf("match: {conditions: [{name: c, expression: \"event.message.matches('[a-c]{55}%d')\"}]}\n", n)
	}
	var rules policy.Rules
	for i := range 3 {
		rules.Policies = append(rules.Policies,
			w.clusterPolicy(t, fmt.Sprint("baseline", i), costly(i)), w.clusterPolicy(t, fmt.Sprint("admin", i), "tier: Admin\n"+costly(10+i)))
		rules.Quotas = append(rules.Quotas, w.clusterQuota(t, fmt.Sprint("q", i), costly(20+i)+oneTokenLimit))
	}
	// One of these has an expression that others have, the other one costs little.
	rules.Policies = append(rules.Policies, w.clusterPolicy(t, "same", costly(11)), w.clusterPolicy(t, "zheap", neverMatches))
	for range 3 {
		s := policy.NewSet(policy.Default(), rules, nil)
		var names []string
		for name, why := range s.Excluded() {
			names = append(names, name)
			if !strings.Contains(why.Error(), "20000000") {
				t.Errorf("%s: %v", name, why)
			}
		}
		if got := sorted(names); got != "ClusterEventPolicy baseline0 ClusterEventPolicy baseline1 ClusterEventPolicy baseline2 ClusterEventQuota q2" {
			t.Errorf("left out: %s", got)
		}
		rules.Policies = append(rules.Policies[1:], rules.Policies[0])
		rules.Quotas = append(rules.Quotas[1:], rules.Quotas[0])
	}
}
