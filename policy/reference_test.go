package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
)

// The conditions and selectors that random policies draw from, each with what
// it says in Go.
var (
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
	}
)

// known is a random policy with what the reference has to know of it.
type known struct {
	*policy.Policy

	conditions []int
	selector   int // -1 for none
}

func randomPolicy(tb testing.TB, w writer, rnd *rand.Rand, own bool, name string) known {
	tb.Helper()
	k := known{selector: -1}
	spec := fmt.Sprintf("priority: %d\nmode: %q\n", rnd.IntN(3), []string{"Enforce", "Enforce", "Audit", "Off"}[rnd.IntN(4)])
	var listed []string
	for i, c := range conditions {
		if rnd.IntN(5) == 0 {
			k.conditions = append(k.conditions, i)
			listed = append(listed, fmt.Sprintf("{name: c%d, expression: %q}", i, c.expression))
		}
	}
	spec += "matchConditions: [" + strings.Join(listed, ",") + "]\n"
	if rnd.IntN(2) == 0 {
		spec += "quotas: [{type: User, burst: 1, tokens: 1}]\n"
	}
	if own {
		k.Policy = w.own(tb, name, spec)
		return k
	}
	spec += fmt.Sprintf("tier: %s\nonStoreFailure: %s\n", []string{"Admin", "Baseline"}[rnd.IntN(2)], []string{"Local", "Local", "Admit", "Deny"}[rnd.IntN(4)])
	if rnd.IntN(2) == 0 {
		k.selector = rnd.IntN(len(selectors))
		spec += "namespaceSelector: {" + selectors[k.selector].spec + "}\n"
	}
	k.Policy = w.admins(tb, name, spec)
	return k
}

func (k known) matches(l labels.Set, e *corev1.Event, r *policy.Request) bool {
	if k.Mode == policy.Off || k.selector >= 0 && !selectors[k.selector].selects(l) {
		return false
	}
	return !slices.ContainsFunc(k.conditions, func(c int) bool { return !conditions[c].holds(e, r) })
}

// before reports whether k is asked before o.
func (k known) before(o known) bool {
	tier := map[policy.Tier]int{policy.TierAdmin: 0, "": 1, policy.TierBaseline: 2}
	switch {
	case tier[k.Match.Tier] != tier[o.Match.Tier]:
		return tier[k.Match.Tier] < tier[o.Match.Tier]
	case k.Match.Priority != o.Match.Priority:
		return k.Match.Priority > o.Match.Priority
	}
	return k.Identity.Name < o.Identity.Name
}

// reference says what applies as the rules are written down: with no order
// kept, no index and no shortcut.
func reference(fallback *policy.Policy, all []known, l labels.Set, e *corev1.Event, r *policy.Request) policy.Governing {
	first := func(fits func(known) bool) *policy.Policy {
		var found *known
		for i, k := range all {
			if k.matches(l, e, r) && fits(k) && (found == nil || k.before(*found)) {
				found = &all[i]
			}
		}
		if found == nil {
			return nil
		}
		return found.Policy
	}
	enforced := func(k known) bool { return k.Mode == policy.Enforce }
	g := policy.Governing{Policy: first(enforced), OnStoreFailure: policy.FailureLocal}
	if g.Policy == nil {
		g.Policy = fallback
	}
	if a := first(func(known) bool { return true }); a != nil && a.Mode == policy.Audit {
		g.Audit = a
	}
	say := g.Policy
	if say.Match.Tier == "" {
		say = first(func(k known) bool { return enforced(k) && k.Match.Tier == policy.TierBaseline })
	}
	if say != nil && g.Policy != fallback {
		g.OnStoreFailure = say.OnStoreFailure
	}
	for _, k := range all {
		switch {
		case !k.matches(l, e, r), k.Match.Tier == "", len(k.Quotas) == 0:
		case k.Mode == policy.Audit:
			g.AuditFloor = append(g.AuditFloor, k.Policy)
		default:
			g.Floor = append(g.Floor, k.Policy)
		}
	}
	return g
}

// summary is g as text, the floors in any order.
func summary(g policy.Governing) string {
	floor, audited := names(g.Floor), names(g.AuditFloor)
	slices.Sort(floor)
	slices.Sort(audited)
	audit := "none"
	if g.Audit != nil {
		audit = g.Audit.Name
	}
	return fmt.Sprintf("governs %s, audits %s, floor %v, audit floor %v, without a store %s", g.Policy.Name, audit, floor, audited, g.OnStoreFailure)
}

func TestResolutionIsThatOfTheRules(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	fallback := builtIn()
	for seed := range uint64(600) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var all []known
		var cluster, own []*policy.Policy
		for i := range rnd.IntN(7) {
			k := randomPolicy(t, w, rnd, false, fmt.Sprintf("c%d", i))
			all, cluster = append(all, k), append(cluster, k.Policy)
		}
		for i := range rnd.IntN(5) {
			k := randomPolicy(t, w, rnd, true, fmt.Sprintf("o%d", i))
			all, own = append(all, k), append(own, k.Policy)
		}
		l := []labels.Set{{}, {"team": "b"}, {"team": "c"}}[rnd.IntN(3)]
		rnd.Shuffle(len(cluster), func(i, j int) { cluster[i], cluster[j] = cluster[j], cluster[i] })
		s := policy.NewSet(fallback, cluster, map[string]policy.Namespace{"a": {Labels: l, Policies: own}})
		for range 4 {
			e, r := backOff(), create()
			e.Reason = []string{"BackOff", "Pulled"}[rnd.IntN(2)]
			e.Labels = []map[string]string{nil, {"a": "b"}}[rnd.IntN(2)]
			e.Count = rnd.Int32N(3)
			r.UserInfo.Username = []string{"u", "v"}[rnd.IntN(2)]
			got, want := summary(s.For(t.Context(), "a", e, r)), summary(reference(fallback, all, l, e, r))
			if got != want {
				t.Fatalf("seed %d:\n got %s\nwant %s", seed, got, want)
			}
		}
	}
}
