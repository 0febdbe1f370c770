package policy_test

import (
	"fmt"
	"testing"

	"github.com/eventquota/eventquota/policy"
)

// TestResolutionAllocatesAListOfQuotasAlone has a namespace with 5 policies and quotas, and 200 policies and quotas of the
// cluster, of which 10 select it.
func TestResolutionAllocatesAListOfQuotasAlone(t *testing.T) {
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
	if allocs > 1 {
		t.Errorf("%v allocations, want one", allocs)
	}
	if want := 101 * (10 + 5); n != want {
		t.Errorf("%d limits, want %d", n, want)
	}
}

func TestConditionsAllocateLittle(t *testing.T) {
	w, ctx, e, r := newWriter(t), t.Context(), backOff(), create()
	var all []*policy.Policy
	for i := range 10 { // from one template
		all = append(all, w.own(t, fmt.Sprint("o", i), "match: {conditions: [{name: c, expression: \"event.reason == 'None' && request.namespace != ''\"}]}"))
	}
	s := policy.NewSet(policy.Default(), policy.Rules{}, a(all))
	if n := testing.AllocsPerRun(100, func() { s.For(ctx, "a", e, r) }); n > 150 {
		t.Errorf("%v allocations, want at most 15 for each condition", n)
	}
}
