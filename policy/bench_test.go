package policy_test

import (
	"fmt"
	"testing"

	"github.com/eventquota/eventquota/policy"
)

// crowd is a set of n namespaces with 5 policies and quotas each, and of 200 policies and quotas of the
// cluster, of which all but 10 select one namespace each.
func crowd(tb testing.TB, n int) *policy.Set {
	tb.Helper()
	w := newWriter(tb)
	limit := func(i int) string {
		return fmt.Sprintf("limits: [{name: n%d, per: [Namespace], burst: 100, tokens: 10}]\n", i)
	}
	var cluster, own policy.Rules
	for i := range 200 {
		match := ""
		if i >= 10 {
			match = fmt.Sprintf("match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: n%d}}}\n", i)
		}
		cluster.Policies = append(cluster.Policies, w.admins(tb, fmt.Sprint("p", i), match))
		cluster.Quotas = append(cluster.Quotas, w.adminsQuota(tb, fmt.Sprint("q", i), match+limit(i)))
	}
	for i := range 5 {
		own.Policies = append(own.Policies, w.own(tb, fmt.Sprint("p", i), fmt.Sprint("precedence: ", i+1)))
		own.Quotas = append(own.Quotas, w.ownQuota(tb, fmt.Sprint("q", i), limit(i)))
	}
	namespaces := map[string]policy.Namespace{"a": {Rules: own}}
	for i := range n - 1 {
		namespaces[fmt.Sprint("n", i)] = policy.Namespace{Rules: own}
	}
	return policy.NewSet(policy.Default(), cluster, namespaces)
}

func TestResolutionAllocatesAListOfQuotasAlone(t *testing.T) {
	s, e, r := crowd(t, 1000), backOff(), create()
	ctx, n := t.Context(), 0
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

func BenchmarkResolve(b *testing.B) {
	w := newWriter(b)
	own := func(n int, spec string) *policy.Set {
		var all []*policy.Policy
		for i := range n {
			all = append(all, w.own(b, fmt.Sprintf("o%d", i), spec))
		}
		return policy.NewSet(policy.Default(), policy.Rules{}, a(all))
	}
	const passedBy = "match: {conditions: [{name: c, expression: \"event.reason == 'None'\"}]}"
	for _, bench := range []struct {
		name string
		set  *policy.Set
	}{
		{"policies=0", own(0, "{}")},
		{"policies=1", own(1, "{}")},
		{"policies=100", own(100, "{}")},
		{"conditional=1", own(1, passedBy)},
		{"conditional=5", own(5, passedBy)},
		{"conditional=100", own(100, passedBy)},
		{"namespaces=1", crowd(b, 1)},
		{"namespaces=1000", crowd(b, 1000)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			e, r, ctx := backOff(), create(), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				g := bench.set.For(ctx, "a", e, r)
				for range g.Limits() {
				}
			}
		})
	}
}

func BenchmarkArrange(b *testing.B) {
	s := crowd(b, 1000)
	b.Run("one namespace of 1000", func(b *testing.B) {
		for b.Loop() {
			s.With(map[string]*policy.Namespace{"a": {}})
		}
	})
	w := newWriter(b)
	b.Run("compile a condition", func(b *testing.B) {
		for b.Loop() {
			w.own(b, "p", "match: {conditions: [{name: c, expression: \"event.reason == 'None'\"}]}")
		}
	})
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
