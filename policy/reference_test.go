package policy_test

import (
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
)

// randomRuleState is a random rule, with what the reference has to know of it.
type randomRuleState struct {
	*policy.Rule

	policy     *policy.Policy // or
	quota      *policy.Quota
	list       int // -1 for none
	globs      []int
	conditions []int
	selector   int // -1 for none
}

func randomRule(tb testing.TB, w ruleBuilder, rnd *rand.Rand, own, quota bool, name string) randomRuleState {
	tb.Helper()
	k := randomRuleState{selector: -1, list: -1}
	spec := fmt.Sprintf("mode: %s\n", []string{"Enforce", "Enforce", "Audit", "Disabled"}[rnd.IntN(4)])
	if !own || !quota {
		spec += fmt.Sprintf("precedence: %d\n", 1+rnd.IntN(3))
	}
	match := "match: {"
	if !own && rnd.IntN(2) == 0 {
		k.selector = rnd.IntN(len(selectors))
		match += "namespaceSelector: {" + selectors[k.selector].spec + "}, "
	}
	if rnd.IntN(4) == 0 {
		k.list = rnd.IntN(len(lists))
		match += lists[k.list].spec + ", "
	}
	var listed []string
	for i, g := range globs {
		if rnd.IntN(12) == 0 {
			k.globs = append(k.globs, i)
			listed = append(listed, fmt.Sprintf("%q", g.glob))
		}
	}
	match += "messages: [" + strings.Join(listed, ",") + "], "
	if listed = nil; !own {
		for i, c := range conditions {
			if rnd.IntN(6) == 0 {
				k.conditions = append(k.conditions, i)
				listed = append(listed, fmt.Sprintf("{name: c%d, expression: %q}", i, c.expression))
			}
		}
		match += "conditions: [" + strings.Join(listed, ",") + "]"
	}
	spec += match + "}\n"
	switch {
	case quota:
		spec += fmt.Sprintf("limits: [{name: %c, burst: 1, tokens: 1}, {name: x, burst: 1, tokens: 1}]\n", 'a'+rune(rnd.IntN(3)))
		if own {
			k.quota = w.quota(tb, name, spec)
		} else {
			k.quota = w.clusterQuota(tb, name, spec)
		}
		k.Rule = &k.quota.Rule
	case own:
		k.policy = w.policy(tb, name, spec+fmt.Sprintf("action: %s\n", []string{"Limit", "Exempt", "Drop"}[rnd.IntN(3)]))
		k.Rule = &k.policy.Rule
	default:
		k.policy = w.clusterPolicy(tb, name, spec+fmt.Sprintf("action: %s\ntier: %s\n", []string{"Limit", "Exempt", "Drop"}[rnd.IntN(3)], []string{"Admin", "Baseline"}[rnd.IntN(2)]))
		k.Rule = &k.policy.Rule
	}
	return k
}

func (k randomRuleState) namespaced() bool { return k.Identity.Namespace != "" }

func (k randomRuleState) matches(n randomNamespaceState, e *corev1.Event, r *policy.Request) truth {
	if k.Mode == policy.Disabled {
		return no
	}
	is := yes
	if k.selector >= 0 {
		is = truthOf(selectors[k.selector].selects(n.labels))
		if selectors[k.selector].team && n.noTeam {
			is = unknown
		}
	}
	if k.list >= 0 && e != nil {
		is = min(is, truthOf(lists[k.list].fits(e)))
	}
	if len(k.globs) > 0 && e != nil {
		one := no
		for _, g := range k.globs {
			one = max(one, globs[g].matches(e.Message, len(e.Message) > 4096))
		}
		is = min(is, one)
	}
	if e == nil && (k.list >= 0 || len(k.globs) > 0) {
		is = min(is, unknown)
	}
	for _, c := range k.conditions {
		switch {
		case e != nil, strings.HasPrefix(conditions[c].expression, "request."):
			is = min(is, conditions[c].holds(e, r))
		default:
			is = min(is, unknown)
		}
	}
	return is
}

// precedes reports whether k is asked before o.
func (k randomRuleState) precedes(o randomRuleState) bool {
	place := func(k randomRuleState) int {
		switch {
		case k.policy == nil && !k.namespaced(), k.policy != nil && k.policy.Tier == policy.TierAdmin:
			return 0
		case k.namespaced():
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(place(k), place(o)), cmp.Compare(k.Precedence, o.Precedence), cmp.Compare(k.Identity.Name, o.Identity.Name)) < 0
}

// referenceResolution says what applies as the rules are written down: with no order kept, no index and no shortcut.
func referenceResolution(fallback *policy.Policy, all []randomRuleState, n randomNamespaceState, e *corev1.Event, r *policy.Request) string {
	first := func(fits func(randomRuleState) bool) *policy.Policy {
		var found *randomRuleState
		for i, k := range all {
			if k.policy != nil && k.matches(n, e, r) == yes && fits(k) && (found == nil || k.precedes(*found)) {
				found = &all[i]
			}
		}
		if found == nil {
			return nil
		}
		return found.policy
	}
	governs := cmp.Or(first(func(k randomRuleState) bool { return k.Mode == policy.Enforce }), fallback)
	audits := first(func(randomRuleState) bool { return true })
	if audits != nil && audits.Mode != policy.Audit {
		audits = nil
	}
	limited := func(p *policy.Policy, modes ...policy.Mode) string {
		var found []randomRuleState
		for _, k := range all {
			if k.quota != nil && k.matches(n, e, r) != no && slices.Contains(modes, k.Mode) {
				found = append(found, k)
			}
		}
		slices.SortFunc(found, func(a, b randomRuleState) int {
			if a.precedes(b) {
				return -1
			}
			return 1
		})
		var names []string
		seen, own := map[string]bool{}, 0
		for _, k := range found {
			for _, limit := range k.quota.Limits {
				if p.Action == policy.Exempt && (k.namespaced() || p.Identity.Namespace == "") || !k.namespaced() && seen[limit.Name] {
					continue
				}
				seen[limit.Name] = seen[limit.Name] || !k.namespaced() && k.matches(n, e, r) == yes
				if k.namespaced() {
					own++
				}
				if own > policy.MaxLimitsPerEvent {
					continue
				}
				names = append(names, k.Identity.Name+"/"+limit.Name)
			}
		}
		return strings.Join(names, " ")
	}
	audited := slices.ContainsFunc(all, func(k randomRuleState) bool {
		return k.quota != nil && k.Mode == policy.Audit && k.matches(n, e, r) != no
	})
	return summary(governs, audits, audited, limited(governs, policy.Enforce), limited(cmp.Or(audits, governs), policy.Enforce, policy.Audit))
}

// limits are limits as text: quota/limit, in their order.
func limits(all iter.Seq2[*policy.Quota, *policy.QuotaLimit]) string {
	var names []string
	for q, l := range all {
		names = append(names, q.Identity.Name+"/"+l.Name)
	}
	return strings.Join(names, " ")
}

func summary(governs, audits *policy.Policy, audited bool, limited, all string) string {
	audit := "none"
	if audits != nil {
		audit = audits.Name
	}
	return fmt.Sprintf("governs %s, audits %s, limits %s, with those audited (%t) %s", governs.Name, audit, limited, audited, all)
}

func TestResolutionMatchesReference(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	fallback := policy.Default()
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var all []randomRuleState
		var cluster, own policy.Rules
		for i := range rnd.IntN(16) {
			k := randomRule(t, w, rnd, rnd.IntN(2) == 0, rnd.IntN(2) == 0, fmt.Sprint("r", i))
			all = append(all, k)
			rules := &cluster
			if k.namespaced() {
				rules = &own
			}
			if k.quota != nil {
				rules.Quotas = append(rules.Quotas, k.quota)
			} else {
				rules.Policies = append(rules.Policies, k.policy)
			}
		}
		n := randomNamespace(rnd)
		n.Rules = own
		namespaces := map[string]policy.Namespace{"a": n.Namespace}
		if len(own.Policies)+len(own.Quotas) == 0 && n.Labels == nil {
			clear(namespaces)
		}
		s := policy.NewSet(fallback, cluster, namespaces)
		for range 4 {
			e, r := backOff(), create()
			e.Message = []string{"aba", "abc", "", strings.Repeat("a", 4000) + "b" + strings.Repeat("a", 99) + "ca"}[rnd.IntN(4)]
			e.FirstTimestamp = metav1.Date([]int{1, 1969, 2030, 9999, 10000}[rnd.IntN(5)], 6, 1, 0, 0, 0, 0, time.UTC)
			e.Reason = []string{"BackOff", "Pulled"}[rnd.IntN(2)]
			e.Labels = []map[string]string{nil, {"a": "b"}}[rnd.IntN(2)]
			e.Count = rnd.Int32N(3)
			e.Type = []string{"Warning", "Normal", ""}[rnd.IntN(3)]
			e.InvolvedObject.Kind = []string{"Pod", "Node"}[rnd.IntN(2)]
			e.Source.Component = []string{"kubelet", "scheduler"}[rnd.IntN(2)]
			r.UserInfo.Username = []string{"u", "v"}[rnd.IntN(2)]
			if rnd.IntN(8) == 0 {
				e = nil // it cannot be read
			}
			g := s.Resolve(t.Context(), "a", e, r)
			if got, want := summary(g.Policy, g.AuditPolicy, g.HasAuditQuotas(), limits(g.Limits()), limits(g.AuditLimits())), referenceResolution(fallback, all, n, e, r); got != want {
				t.Fatalf("seed %d:\n got %s\nwant %s", seed, got, want)
			}
		}
	}
}

func TestWithNamespacesChangesOnlyThose(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	cluster := policy.Rules{Policies: []*policy.Policy{w.clusterPolicy(t, "b", "tier: Admin\nmatch: {namespaceSelector: {matchLabels: {team: b}}}")}}
	first := policy.NewSet(policy.Default(), cluster, map[string]policy.Namespace{
		"a":       {Labels: labels.Set{"team": "a"}, Rules: policy.Rules{Policies: []*policy.Policy{w.policy(t, "one", "")}}},
		"removed": {Labels: labels.Set{"team": "b"}}, "kept": {Labels: labels.Set{"team": "b"}},
	})
	second := first.WithNamespaces(map[string]*policy.Namespace{
		"a": {Labels: labels.Set{"team": "b"}}, "removed": nil, "new": {Labels: labels.Set{"team": "a"}},
	})
	var got []string
	for _, s := range []*policy.Set{first, second} {
		for _, n := range []string{"a", "removed", "kept", "new"} {
			g := s.Resolve(t.Context(), n, backOff(), create())
			got = append(got, g.Policy.Identity.Name)
		}
	}
	if want := []string{"one", "b", "b", "", "b", "", "b", ""}; !slices.Equal(got, want) {
		t.Errorf("before and after: %q, want %q", got, want)
	}
}
