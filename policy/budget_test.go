package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/policy"
)

func TestATenantsPoliciesShareABudget(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	var own []*policy.Policy
	for i := range 500 {
		own = append(own, w.own(t, fmt.Sprintf("p%03d", i), "matchConditions: [{name: c, expression: 'event.message.split(\"\").all(x, x == \"a\") && event.reason == \"None\"'}]"))
	}
	quota := "quotas: [{type: Server, burst: 1, tokens: 1}]\n"
	floor := w.admins(t, "floor", quota+"matchConditions: [{name: c, expression: 'event.message.matches(\"a{1,9}\")'}]")
	e := backOff()
	e.Message = strings.Repeat("a", 2000)
	g := policy.NewSet(builtIn(), []*policy.Policy{floor}, map[string]policy.Namespace{"a": {Policies: own}}).For(t.Context(), "a", e, create())
	if g.Policy != floor || len(g.Floor) != 1 {
		t.Errorf("%s governs above a floor of %d policies", g.Policy.Name, len(g.Floor))
	}
	if n := len(g.Errors); n < 400 || n >= 500 {
		t.Errorf("%d of 500 policies of the tenant found no budget, want most, but not all", n)
	}
}

func TestAnEventThatCostsTooMuchStaysOverTheFloor(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	floor := w.admins(t, "floor", "quotas: [{type: Server, burst: 1, tokens: 1}]\nmatchConditions: [{name: c, expression: 'event.message.matches(\"(a|b|c|d|e|f|g|h)*z\")'}]")
	e := backOff()
	s := policy.NewSet(builtIn(), []*policy.Policy{floor}, nil)
	if g := s.For(t.Context(), "a", e, create()); len(g.Floor) != 0 {
		t.Errorf("an Event that the policy does not match has a floor of %d", len(g.Floor))
	}
	e.Message = strings.Repeat("a", 3<<20)
	if g := s.For(t.Context(), "a", e, create()); len(g.Floor) != 1 || g.Policy == floor {
		t.Errorf("%s governs above a floor of %d policies", g.Policy.Name, len(g.Floor))
	}
}

func TestAnEventCannotUseUpTheBudgetToGetPastOtherQuotas(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	const quota = "quotas: [{type: Server, burst: 1, tokens: 1}]\n"
	var cluster []*policy.Policy
	for i := range 6 {
		cluster = append(cluster, w.admins(t, fmt.Sprintf("p%d", i), quota+"matchConditions: [{name: c, expression: 'event.message.matches(\"(a|b|c|d|e|f|g|h)*z\")'}]"))
	}
	cluster = append(cluster, w.admins(t, "p6", quota+"matchConditions: [{name: c, expression: 'event.reason == \"None\"'}]"))
	s := policy.NewSet(builtIn(), cluster, nil)
	e := backOff()
	if g := s.For(t.Context(), "a", e, create()); len(g.Floor) != 0 || len(g.Errors) != 0 {
		t.Errorf("a small Event: floor %v, errors %v", names(g.Floor), g.Errors)
	}
	e.Message = strings.Repeat("a", 1<<20)
	g := s.For(t.Context(), "a", e, create())
	if n := len(g.Floor); n < 2 || n > 6 || g.Floor[n-1] != cluster[6] || len(g.Errors) != n || g.Policy.Name != "default" {
		t.Errorf("a large Event: floor %v, errors %v, %s governs", names(g.Floor), g.Errors, g.Policy.Name)
	}
}
