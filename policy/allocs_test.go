package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/policy"
)

// TestResolutionIsAllocationFree has a namespace with 5 policies and quotas, and 200 policies and quotas of the cluster, of
// which 10 select it and 9 of the quotas match.
func TestResolutionIsAllocationFree(t *testing.T) {
	w := newRuleBuilder(t)
	limit := func(i int) string {
		return fmt.Sprintf("limits: [{name: n%d, per: [Namespace], burst: 100, tokens: 10}]\n", i)
	}
	var cluster, own policy.Rules
	for i := range 200 {
		match := ""
		if i >= 10 {
			match = fmt.Sprintf("match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: n%d}}}\n", i)
		}
		if i == 3 {
			match = "match: {types: [Normal]}\n"
		}
		cluster.Policies = append(cluster.Policies, w.clusterPolicy(t, fmt.Sprint("p", i), match))
		cluster.Quotas = append(cluster.Quotas, w.clusterQuota(t, fmt.Sprint("q", i), match+limit(i)))
	}
	for i := range 5 {
		own.Policies = append(own.Policies, w.policy(t, fmt.Sprint("p", i), fmt.Sprint("precedence: ", i+1)))
		own.Quotas = append(own.Quotas, w.quota(t, fmt.Sprint("q", i), limit(i)))
	}
	s := policy.NewSet(policy.Default(), cluster, map[string]policy.Namespace{"a": {Rules: own}})
	e, r, ctx, n := backOff(), create(), t.Context(), 0
	allocs := testing.AllocsPerRun(100, func() {
		g := s.Resolve(ctx, "a", e, r)
		for range g.Limits() {
			n++
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
	if want := 101 * (9 + 5); n != want {
		t.Errorf("%d limits, want %d", n, want)
	}
}

func TestResolutionInUnknownNamespaceAllocatesNothing(t *testing.T) {
	w := newRuleBuilder(t)
	s := policy.NewSet(policy.Default(), policy.Rules{
		Policies: []*policy.Policy{w.clusterPolicy(t, "p", "")}, Quotas: []*policy.Quota{w.clusterQuota(t, "q", oneTokenLimit)},
	}, nil)
	e, r, ctx := backOff(), create(), t.Context()
	if n := testing.AllocsPerRun(100, func() { s.Resolve(ctx, "a", e, r) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestAllMatchingQuotasApply(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	var quotas []*policy.Quota
	var want []string
	for i := range 40 {
		name := fmt.Sprintf("q%02d", i)
		quotas = append(quotas, w.clusterQuota(t, name, fmt.Sprintf("limits: [{name: n%d, burst: 1, tokens: 1}]", i)))
		want = append(want, fmt.Sprintf("%s/n%d", name, i))
	}
	g := policy.NewSet(policy.Default(), policy.Rules{Quotas: quotas}, nil).Resolve(t.Context(), "a", backOff(), create())
	if got := limits(g.Limits()); got != strings.Join(want, " ") {
		t.Errorf("limits %s, want %s", got, want)
	}
	if last := quotas[len(quotas)-1]; g.Rule(last.Name) != &last.Rule {
		t.Errorf("%s is not among the rules that apply", last.Name)
	}
}

// TestSharedConditionAllocatesLittle has a hundred rules with the same condition, which is evaluated once.
func TestSharedConditionAllocatesLittle(t *testing.T) {
	const most = 16
	w, ctx, e, r := newRuleBuilder(t), t.Context(), backOff(), create()
	var cluster policy.Rules
	for i := range 50 {
		cluster.Policies = append(cluster.Policies, w.clusterPolicy(t, fmt.Sprint("p", i), neverMatches))
		cluster.Quotas = append(cluster.Quotas, w.clusterQuota(t, fmt.Sprint("q", i), neverMatches+oneTokenLimit))
	}
	s := policy.NewSet(policy.Default(), cluster, nil)
	if n := testing.AllocsPerRun(100, func() { s.Resolve(ctx, "a", e, r) }); n > most {
		t.Errorf("%v allocations, want at most %d", n, most)
	}
}

// TestMessageMatchingAllocatesNothing has globs that match, and that do not.
func TestMessageMatchingAllocatesNothing(t *testing.T) {
	w, ctx, e, r := newRuleBuilder(t), t.Context(), backOff(), create()
	p := w.policy(t, "p", "match: {messages: ['*x*y*', 'Back-off*pulling*']}")
	q := w.quota(t, "q", "match: {messages: ['*restarting*container']}\n"+oneTokenLimit)
	s := policy.NewSet(policy.Default(), policy.Rules{}, namespaceA([]*policy.Policy{p}, q))
	if n := testing.AllocsPerRun(100, func() { s.Resolve(ctx, "a", e, r) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
