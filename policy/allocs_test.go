package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/policy"
)

// TestResolutionAllocatesNothing has a namespace with 5 policies and quotas, and 200 policies and quotas of the cluster, of
// which 10 select it and 9 of the quotas match.
func TestResolutionAllocatesNothing(t *testing.T) {
	w := newWriter(t)
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
		cluster.Policies = append(cluster.Policies, w.admins(t, fmt.Sprint("p", i), match))
		cluster.Quotas = append(cluster.Quotas, w.adminsQuota(t, fmt.Sprint("q", i), match+limit(i)))
	}
	for i := range 5 {
		own.Policies = append(own.Policies, w.own(t, fmt.Sprint("p", i), fmt.Sprint("precedence: ", i+1)))
		own.Quotas = append(own.Quotas, w.ownQuota(t, fmt.Sprint("q", i), limit(i)))
	}
	s := policy.NewSet(policy.Default(), cluster, map[string]policy.Namespace{"a": {Rules: own}})
	e, r, ctx, n := backOff(), create(), t.Context(), 0
	allocs := testing.AllocsPerRun(100, func() {
		g := s.For(ctx, "a", e, r)
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

func TestResolutionInAnUnknownNamespaceAllocatesNothing(t *testing.T) {
	w := newWriter(t)
	s := policy.NewSet(policy.Default(), policy.Rules{
		Policies: []*policy.Policy{w.admins(t, "p", "")}, Quotas: []*policy.Quota{w.adminsQuota(t, "q", one)},
	}, nil)
	e, r, ctx := backOff(), create(), t.Context()
	if n := testing.AllocsPerRun(100, func() { s.For(ctx, "a", e, r) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestEachOfManyQuotasApplies(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	var quotas []*policy.Quota
	var want []string
	for i := range 40 {
		name := fmt.Sprintf("q%02d", i)
		quotas = append(quotas, w.adminsQuota(t, name, fmt.Sprintf("limits: [{name: n%d, burst: 1, tokens: 1}]", i)))
		want = append(want, fmt.Sprintf("%s/n%d", name, i))
	}
	g := policy.NewSet(policy.Default(), policy.Rules{Quotas: quotas}, nil).For(t.Context(), "a", backOff(), create())
	if got := limits(g.Limits()); got != strings.Join(want, " ") {
		t.Errorf("limits %s, want %s", got, want)
	}
	if last := quotas[len(quotas)-1]; g.Rule(last.Name) != &last.Rule {
		t.Errorf("%s is not among the rules that apply", last.Name)
	}
}

// TestConditionsOfOneTemplateAllocateLittle has a hundred rules with the same condition, which is evaluated once.
func TestConditionsOfOneTemplateAllocateLittle(t *testing.T) {
	const most = 16
	w, ctx, e, r := newWriter(t), t.Context(), backOff(), create()
	var cluster policy.Rules
	for i := range 50 {
		cluster.Policies = append(cluster.Policies, w.admins(t, fmt.Sprint("p", i), none))
		cluster.Quotas = append(cluster.Quotas, w.adminsQuota(t, fmt.Sprint("q", i), none+one))
	}
	s := policy.NewSet(policy.Default(), cluster, nil)
	if n := testing.AllocsPerRun(100, func() { s.For(ctx, "a", e, r) }); n > most {
		t.Errorf("%v allocations, want at most %d", n, most)
	}
}

// TestMessagesAllocateNothing has globs that match, and that do not.
func TestMessagesAllocateNothing(t *testing.T) {
	w, ctx, e, r := newWriter(t), t.Context(), backOff(), create()
	p := w.own(t, "p", "match: {messages: ['*x*y*', 'Back-off*pulling*']}")
	q := w.ownQuota(t, "q", "match: {messages: ['*restarting*container']}\n"+one)
	s := policy.NewSet(policy.Default(), policy.Rules{}, a([]*policy.Policy{p}, q))
	if n := testing.AllocsPerRun(100, func() { s.For(ctx, "a", e, r) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
