package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/policy"
)

// costly is a condition that costs too much on a large Event, and cheap one that never does. Neither holds.
const (
	costly = "match: {conditions: [{name: c, expression: 'event.message.matches(\"(a|b|c|d|e|f|g|h)*z\")'}]}\n"
	cheap  = "match: {conditions: [{name: c, expression: 'event.reason == \"None\"'}]}\n"
	one    = "limits: [{name: all, burst: 1, tokens: 1}]\n"
)

func TestATenantsPoliciesShareABudget(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	var own []*policy.Policy
	for i := range 500 {
		own = append(own, w.own(t, fmt.Sprintf("p%03d", i), each(i)))
	}
	const matches = "match: {conditions: [{name: c, expression: 'event.message.matches(\"a{1,9}\")'}]}\n"
	own = append(own, w.own(t, "same", matches)) // finds no budget, unlike the cluster's
	floor := policy.Rules{
		Policies: []*policy.Policy{w.admins(t, "floor", matches)},
		Quotas:   []*policy.Quota{w.adminsQuota(t, "floor", matches+one)},
	}
	e := backOff()
	e.Message = strings.Repeat("a", 2000)
	g := policy.NewSet(policy.Default(), floor, a(own)).For(t.Context(), "a", e, create())
	if g.Policy != floor.Policies[0] || limits(g.Limits()) != "floor/all" {
		t.Errorf("%s governs under %q", g.Policy.Name, limits(g.Limits()))
	}
	if n := len(g.Errors); n < 400 || n > 500 {
		t.Errorf("%d of 501 policies of the tenant found no budget, want most, but not all", n)
	}
}

// each is one of many conditions that cost a few hundredths of a tenant's budget on an Event of 2,000 bytes. None holds.
func each(n int) string {
	return fmt.Sprintf("match: {conditions: [{name: c, expression: 'event.message.split(\"\").all(x, x == \"a\") && event.reason == \"%d\"'}]}\n", n)
}

func TestRulesPayOnceForTheConditionThatTheyShare(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	e := backOff()
	e.Message = strings.Repeat("a", 2000)
	failed := func(cluster, own []*policy.Policy) int {
		g := policy.NewSet(policy.Default(), policy.Rules{Policies: cluster}, a(own)).For(t.Context(), "a", e, create())
		return len(g.Errors)
	}
	var same, different, clusters []*policy.Policy
	for i := range 60 {
		same = append(same, w.own(t, fmt.Sprintf("p%03d", i), each(0)))
		different = append(different, w.own(t, fmt.Sprintf("p%03d", i), each(i)))
	}
	for i := range 10 {
		clusters = append(clusters, w.admins(t, fmt.Sprint("p", i), "tier: Admin\n"+each(i)))
	}
	if n := failed(nil, same); n != 0 {
		t.Errorf("%d of 60 policies with the same condition found no budget, want none", n)
	}
	alone := failed(nil, different)
	if alone < 20 || alone > 50 {
		t.Errorf("%d of 60 policies with conditions of their own found no budget, want some, but not all", alone)
	}
	if n := failed(clusters, different); n != alone {
		t.Errorf("%d policies of the tenant found no budget, want %d as without those of the cluster, which have ten of their conditions", n, alone)
	}
}

func TestAnEventThatCostsTooMuchIsLimitedAllTheSame(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	s := policy.NewSet(policy.Default(), policy.Rules{
		Policies: []*policy.Policy{w.admins(t, "p", costly)}, Quotas: []*policy.Quota{w.adminsQuota(t, "q", costly+one)},
	}, nil)
	e := backOff()
	if g := s.For(t.Context(), "a", e, create()); limits(g.Limits()) != "" {
		t.Errorf("an Event that the quota does not match is limited by %s", limits(g.Limits()))
	}
	e.Message = strings.Repeat("a", 3<<20)
	if g := s.For(t.Context(), "a", e, create()); limits(g.Limits()) != "q/all" || g.Policy.Name != "default" {
		t.Errorf("%s governs under %q", g.Policy.Name, limits(g.Limits()))
	}
}

func TestAnEventCannotUseUpTheBudgetToGetPastOtherQuotas(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	var quotas []*policy.Quota
	for i := range 6 {
		quotas = append(quotas, w.adminsQuota(t, fmt.Sprintf("q%d", i), strings.Replace(costly, "*z", fmt.Sprint("*z", i), 1)+strings.Replace(one, "all", fmt.Sprint("n", i), 1)))
	}
	quotas = append(quotas, w.adminsQuota(t, "q6", cheap+one))
	s := policy.NewSet(policy.Default(), policy.Rules{Quotas: quotas}, nil)
	e := backOff()
	if g := s.For(t.Context(), "a", e, create()); limits(g.Limits()) != "" || len(g.Errors) != 0 {
		t.Errorf("a small Event: limits %s, errors %v", limits(g.Limits()), g.Errors)
	}
	e.Message = strings.Repeat("a", 1<<20)
	g := s.For(t.Context(), "a", e, create())
	if got := limits(g.Limits()); !strings.HasSuffix(got, "q6/all") || len(g.Errors) != strings.Count(got, "/") || len(g.Errors) < 2 {
		t.Errorf("a large Event: limits %s, errors %v", got, g.Errors)
	}
}
