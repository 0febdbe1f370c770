package policy_test

import (
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
)

// The lists, conditions and selectors that random policies draw from, each with what it says in Go.
var (
	lists = []struct {
		spec string
		fits func(*corev1.Event) bool
	}{
		{"types: [Warning]", func(e *corev1.Event) bool { return e.Type == "Warning" }},
		{"types: [Normal]", func(e *corev1.Event) bool { return e.Type != "Warning" }},
		{"reasons: [BackOff, Killing]", func(e *corev1.Event) bool { return e.Reason == "BackOff" }},
		{"kinds: [Pod]", func(e *corev1.Event) bool { return e.InvolvedObject.Kind == "Pod" }},
		{"controllers: [kubelet]", func(e *corev1.Event) bool { return e.Source.Component == "kubelet" }},
	}
	conditions = []struct {
		expression string
		holds      func(*corev1.Event, *policy.Request) bool
	}{
		{"event.reason == 'BackOff'", func(e *corev1.Event, _ *policy.Request) bool { return e.Reason == "BackOff" }},
		{"request.userInfo.username == 'u'", func(_ *corev1.Event, r *policy.Request) bool { return r.UserInfo.Username == "u" }},
		{"event.metadata.labels['a'] != ''", func(e *corev1.Event, _ *policy.Request) bool { return e.Labels["a"] != "" }},
		{"event.count > 1", func(e *corev1.Event, _ *policy.Request) bool { return e.Count > 1 }},
	}
	selectors = []struct {
		spec    string
		selects func(labels.Set) bool
	}{
		{"matchLabels: {team: b}", func(l labels.Set) bool { return l["team"] == "b" }},
		{"matchExpressions: [{key: team, operator: Exists}]", func(l labels.Set) bool { return l.Has("team") }},
		{"matchExpressions: [{key: team, operator: NotIn, values: [b]}]", func(l labels.Set) bool { return l["team"] != "b" }},
		{"matchLabels: {kubernetes.io/metadata.name: a}", func(l labels.Set) bool { return l["kubernetes.io/metadata.name"] == "a" }},
	}
)

// known is a random rule with what the reference has to know of it.
type known struct {
	*policy.Rule

	policy     *policy.Policy // or
	quota      *policy.Quota
	list       int // -1 for none
	conditions []int
	selector   int // -1 for none
}

func randomRule(tb testing.TB, w writer, rnd *rand.Rand, own, quota bool, name string) known {
	tb.Helper()
	k := known{selector: -1, list: -1}
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
	for i, c := range conditions {
		if rnd.IntN(5) == 0 {
			k.conditions = append(k.conditions, i)
			listed = append(listed, fmt.Sprintf("{name: c%d, expression: %q}", i, c.expression))
		}
	}
	spec += match + "conditions: [" + strings.Join(listed, ",") + "]}\n"
	switch {
	case quota:
		spec += fmt.Sprintf("limits: [{name: %c, burst: 1, tokens: 1}, {name: x, burst: 1, tokens: 1}]\n", 'a'+rune(rnd.IntN(3)))
		if own {
			k.quota = w.ownQuota(tb, name, spec)
		} else {
			k.quota = w.adminsQuota(tb, name, spec)
		}
		k.Rule = &k.quota.Rule
	case own:
		k.policy = w.own(tb, name, spec+fmt.Sprintf("action: %s\n", []string{"Limit", "Exempt", "Drop"}[rnd.IntN(3)]))
		k.Rule = &k.policy.Rule
	default:
		k.policy = w.admins(tb, name, spec+fmt.Sprintf("action: %s\ntier: %s\n", []string{"Limit", "Exempt", "Drop"}[rnd.IntN(3)], []string{"Admin", "Baseline"}[rnd.IntN(2)]))
		k.Rule = &k.policy.Rule
	}
	return k
}

func (k known) own() bool { return k.Identity.Namespace != "" }

func (k known) matches(l labels.Set, e *corev1.Event, r *policy.Request) bool {
	if k.Mode == policy.Disabled || k.selector >= 0 && !selectors[k.selector].selects(l) || k.list >= 0 && !lists[k.list].fits(e) {
		return false
	}
	return !slices.ContainsFunc(k.conditions, func(c int) bool { return !conditions[c].holds(e, r) })
}

// before reports whether k is asked before o.
func (k known) before(o known) bool {
	place := func(k known) int {
		switch {
		case k.policy == nil && !k.own(), k.policy != nil && k.policy.Tier == policy.TierAdmin:
			return 0
		case k.own():
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(place(k), place(o)), cmp.Compare(k.Precedence, o.Precedence), cmp.Compare(k.Identity.Name, o.Identity.Name)) < 0
}

// reference says what applies as the rules are written down: with no order kept, no index and no shortcut.
func reference(fallback *policy.Policy, all []known, l labels.Set, e *corev1.Event, r *policy.Request) string {
	first := func(fits func(known) bool) *policy.Policy {
		var found *known
		for i, k := range all {
			if k.policy != nil && k.matches(l, e, r) && fits(k) && (found == nil || k.before(*found)) {
				found = &all[i]
			}
		}
		if found == nil {
			return nil
		}
		return found.policy
	}
	governs := cmp.Or(first(func(k known) bool { return k.Mode == policy.Enforce }), fallback)
	audits := first(func(known) bool { return true })
	if audits != nil && audits.Mode != policy.Audit {
		audits = nil
	}
	limited := func(p *policy.Policy, modes ...policy.Mode) string {
		var found []known
		for _, k := range all {
			if k.quota != nil && k.matches(l, e, r) && slices.Contains(modes, k.Mode) {
				found = append(found, k)
			}
		}
		slices.SortFunc(found, func(a, b known) int {
			if a.before(b) {
				return -1
			}
			return 1
		})
		var names []string
		seen, own := map[string]bool{}, 0
		for _, k := range found {
			for _, limit := range k.quota.Limits {
				if p.Action == policy.Exempt && (k.own() || p.Identity.Namespace == "") || !k.own() && seen[limit.Name] {
					continue
				}
				seen[limit.Name] = seen[limit.Name] || !k.own()
				if k.own() {
					own++
				}
				if own > policy.MaxOwnLimits {
					continue
				}
				names = append(names, k.Identity.Name+"/"+limit.Name)
			}
		}
		return strings.Join(names, " ")
	}
	audited := slices.ContainsFunc(all, func(k known) bool { return k.quota != nil && k.Mode == policy.Audit && k.matches(l, e, r) })
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

func TestResolutionIsThatOfTheRules(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	fallback := policy.Default()
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var all []known
		var cluster, own policy.Rules
		for i := range rnd.IntN(16) {
			k := randomRule(t, w, rnd, rnd.IntN(2) == 0, rnd.IntN(2) == 0, fmt.Sprint("r", i))
			all = append(all, k)
			rules := &cluster
			if k.own() {
				rules = &own
			}
			if k.quota != nil {
				rules.Quotas = append(rules.Quotas, k.quota)
			} else {
				rules.Policies = append(rules.Policies, k.policy)
			}
		}
		l := []labels.Set{nil, {}, {"team": "b"}, {"team": "c"}}[rnd.IntN(4)]
		namespaces := map[string]policy.Namespace{"a": {Labels: l, Rules: own}}
		if len(own.Policies)+len(own.Quotas) == 0 && l == nil {
			clear(namespaces)
		}
		s := policy.NewSet(fallback, cluster, namespaces)
		if l == nil { // not known, but for its name
			l = labels.Set{"kubernetes.io/metadata.name": "a"}
		}
		for range 4 {
			e, r := backOff(), create()
			e.Reason = []string{"BackOff", "Pulled"}[rnd.IntN(2)]
			e.Labels = []map[string]string{nil, {"a": "b"}}[rnd.IntN(2)]
			e.Count = rnd.Int32N(3)
			e.Type = []string{"Warning", "Normal", ""}[rnd.IntN(3)]
			e.InvolvedObject.Kind = []string{"Pod", "Node"}[rnd.IntN(2)]
			e.Source.Component = []string{"kubelet", "scheduler"}[rnd.IntN(2)]
			r.UserInfo.Username = []string{"u", "v"}[rnd.IntN(2)]
			g := s.For(t.Context(), "a", e, r)
			if got, want := summary(g.Policy, g.Audit, g.Audited(), limits(g.Limits()), limits(g.AuditLimits())), reference(fallback, all, l, e, r); got != want {
				t.Fatalf("seed %d:\n got %s\nwant %s", seed, got, want)
			}
		}
	}
}

func TestAChangeOfANamespaceChangesThatAlone(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	cluster := policy.Rules{Policies: []*policy.Policy{w.admins(t, "b", "tier: Admin\nmatch: {namespaceSelector: {matchLabels: {team: b}}}")}}
	first := policy.NewSet(policy.Default(), cluster, map[string]policy.Namespace{
		"a":       {Labels: labels.Set{"team": "a"}, Rules: policy.Rules{Policies: []*policy.Policy{w.own(t, "one", "")}}},
		"removed": {Labels: labels.Set{"team": "b"}}, "kept": {Labels: labels.Set{"team": "b"}},
	})
	second := first.With(map[string]*policy.Namespace{
		"a": {Labels: labels.Set{"team": "b"}}, "removed": nil, "new": {Labels: labels.Set{"team": "a"}},
	})
	var got []string
	for _, s := range []*policy.Set{first, second} {
		for _, n := range []string{"a", "removed", "kept", "new"} {
			g := s.For(t.Context(), n, backOff(), create())
			got = append(got, g.Policy.Identity.Name)
		}
	}
	if want := []string{"one", "b", "b", "", "b", "", "b", ""}; !slices.Equal(got, want) {
		t.Errorf("before and after: %q, want %q", got, want)
	}
}
