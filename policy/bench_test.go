package policy_test

import (
	"fmt"
	"testing"

	"github.com/eventquota/eventquota/policy"
)

// crowd is a set of n namespaces with 5 policies each, and of 200 cluster
// policies with quotas, of which all but 10 select one namespace each.
func crowd(tb testing.TB, n int) *policy.Set {
	tb.Helper()
	w := newWriter(tb)
	const quota = "quotas: [{type: Namespace, burst: 100, tokens: 10}]\n"
	var cluster, own []*policy.Policy
	for i := range 200 {
		spec := quota
		if i >= 10 {
			spec += fmt.Sprintf("namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: n%d}}", i)
		}
		cluster = append(cluster, w.admins(tb, fmt.Sprintf("c%d", i), spec))
	}
	for i := range 5 {
		own = append(own, w.own(tb, fmt.Sprintf("o%d", i), fmt.Sprintf("priority: %d\n%s", i, quota)))
	}
	namespaces := map[string]policy.Namespace{"a": {Policies: own}}
	for i := range n - 1 {
		namespaces[fmt.Sprintf("n%d", i)] = policy.Namespace{Policies: own}
	}
	return policy.NewSet(builtIn(), cluster, namespaces)
}

func TestResolutionAllocatesNothingWithoutConditions(t *testing.T) {
	s, e, r := crowd(t, 1000), backOff(), create()
	ctx, quotas := t.Context(), 0
	allocs := testing.AllocsPerRun(100, func() {
		g := s.For(ctx, "a", e, r)
		for range g.Quotas() {
			quotas++
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
	if want := 101 * (10 + 1); quotas != want {
		t.Errorf("%d quotas, want %d", quotas, want)
	}
}

func BenchmarkResolve(b *testing.B) {
	w := newWriter(b)
	own := func(n int, spec string) *policy.Set {
		var all []*policy.Policy
		for i := range n {
			all = append(all, w.own(b, fmt.Sprintf("o%d", i), spec))
		}
		return policy.NewSet(builtIn(), nil, map[string]policy.Namespace{"a": {Policies: all}})
	}
	const passedBy = "matchConditions: [{name: c, expression: \"event.reason == 'None'\"}]"
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
				for range g.Quotas() {
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
			w.own(b, "p", "matchConditions: [{name: c, expression: \"event.reason == 'None'\"}]")
		}
	})
}

func TestConditionsAllocateLittle(t *testing.T) {
	w, ctx, e, r := newWriter(t), t.Context(), backOff(), create()
	p := w.own(t, "o", "matchConditions: [{name: c, expression: \"event.reason == 'None' && request.namespace != ''\"}]")
	s := policy.NewSet(builtIn(), nil, map[string]policy.Namespace{"a": {Policies: []*policy.Policy{p}}})
	if n := testing.AllocsPerRun(100, func() { s.For(ctx, "a", e, r) }); n > 20 {
		t.Errorf("%v allocations, want at most 20", n)
	}
}
