package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
)

func TestTheFirstPolicyThatMatchesGoverns(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	type all []*policy.Policy
	admin := func(name, spec string) *policy.Policy { return w.admins(t, name, "tier: Admin\n"+spec) }
	baseline := func(name, spec string) *policy.Policy { return w.admins(t, name, spec) }
	own := func(name, spec string) *policy.Policy { return w.own(t, name, spec) }
	const (
		audit  = "mode: Audit\n"
		off    = "mode: 'Off'\n"
		never  = "matchConditions: [{name: c, expression: 'false'}]\n"
		quota  = "quotas: [{type: User, burst: 1, tokens: 1}]\n"
		teamB  = "namespaceSelector: {matchLabels: {team: b}}\n"
		notB   = "namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [b]}]}\n"
		byName = "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: a}}\n"
	)
	for _, test := range []struct {
		says                   string
		cluster, own           all
		labels                 labels.Set
		governs, audits        string
		floor, auditFloor, all []string
		onStoreFailure         policy.OnStoreFailure
	}{
		{says: "nothing but the default", governs: "default"},
		{says: "Admin before the namespace's own before Baseline", cluster: all{baseline("c", ""), admin("b", "")}, own: all{own("a", "")}, governs: "ClusterEventPolicy b"},
		{says: "the namespace's own before Baseline", cluster: all{baseline("c", "priority: 9")}, own: all{own("a", "")}, governs: "EventPolicy a/a"},
		{says: "Baseline before the default", cluster: all{baseline("c", "")}, governs: "ClusterEventPolicy c"},
		{says: "a higher priority goes first", own: all{own("a", "priority: -1"), own("b", "priority: 1"), own("c", "")}, governs: "EventPolicy a/b"},
		{says: "of equal priority the lower name goes first", own: all{own("c", ""), own("b", ""), own("d", "")}, governs: "EventPolicy a/b"},
		{says: "one that does not match is passed by", cluster: all{admin("a", never)}, own: all{own("a", never), own("b", "")}, governs: "EventPolicy a/b"},
		{says: "one that is Off is as if it were not there", cluster: all{admin("a", off+quota)}, own: all{own("a", off)}, governs: "default"},
		{says: "one whose selector does not match is as if it were not there", cluster: all{admin("a", teamB+quota)}, governs: "default", labels: labels.Set{"team": "a"}},
		{says: "a selector that matches", cluster: all{admin("a", teamB)}, governs: "ClusterEventPolicy a", labels: labels.Set{"team": "b"}},
		{says: "a namespace whose labels are not known is selected by its name", cluster: all{admin("a", byName)}, governs: "ClusterEventPolicy a"},
		{says: "a selector that excludes selects what is not known", cluster: all{admin("a", notB)}, governs: "ClusterEventPolicy a"},
		{says: "a policy in mode Audit takes none out of force", cluster: all{admin("a", audit)}, own: all{own("a", "")}, governs: "EventPolicy a/a", audits: "ClusterEventPolicy a"},
		{says: "the first policy in mode Audit decides", cluster: all{baseline("z", audit)}, own: all{own("a", audit), own("b", audit)}, governs: "default", audits: "EventPolicy a/a"},
		{says: "a policy in mode Audit that would not govern does not decide", own: all{own("a", ""), own("b", audit)}, governs: "EventPolicy a/a"},
		{
			says: "a tenant does not get past the admin's quotas", cluster: all{admin("a", quota+never), baseline("b", quota), baseline("c", quota)},
			own: all{own("mine", "action: Admit\npriority: 1000000\n"+quota)}, governs: "EventPolicy a/mine",
			floor: []string{"b", "c"}, all: []string{"b", "c", "mine"},
		},
		{
			says: "a cluster policy that governs is charged once", cluster: all{admin("a", quota), baseline("b", quota), baseline("c", "")},
			governs: "ClusterEventPolicy a", floor: []string{"a", "b"}, all: []string{"a", "b"},
		},
		{
			says: "quotas in mode Audit are apart", cluster: all{admin("a", quota+audit), admin("b", quota), baseline("c", quota+audit), baseline("d", quota+audit+never)},
			governs: "ClusterEventPolicy b", audits: "ClusterEventPolicy a",
			floor: []string{"b"}, auditFloor: []string{"a", "c"}, all: []string{"b"},
		},
		{says: "the governing cluster policy says what happens without a store", cluster: all{admin("a", "onStoreFailure: Deny"), baseline("b", "onStoreFailure: Admit")}, governs: "ClusterEventPolicy a", onStoreFailure: policy.FailureDeny},
		{says: "a tenant has no say in what happens without a store", cluster: all{baseline("a", "onStoreFailure: Admit\n"+never), baseline("b", "onStoreFailure: Deny"), baseline("c", "")}, own: all{own("a", "")}, governs: "EventPolicy a/a", onStoreFailure: policy.FailureDeny},
		{says: "an audited policy has no say in what happens without a store", cluster: all{baseline("a", "onStoreFailure: Admit\n"+audit), baseline("b", ""), baseline("c", "onStoreFailure: Deny")}, own: all{own("a", "")}, governs: "EventPolicy a/a"},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			s := policy.NewSet(builtIn(), test.cluster, map[string]policy.Namespace{"a": {Labels: test.labels, Policies: test.own}})
			g := s.For(t.Context(), "a", backOff(), create())
			if len(g.Errors) > 0 {
				t.Errorf("errors: %v", g.Errors)
			}
			if g.Policy.Name != test.governs {
				t.Errorf("%s governs, want %s", g.Policy.Name, test.governs)
			}
			audits := ""
			if g.Audit != nil {
				audits = g.Audit.Name
			}
			if audits != test.audits {
				t.Errorf("%q decides in mode Audit, want %q", audits, test.audits)
			}
			var charged []string
			for p := range g.Quotas() {
				charged = append(charged, p.Identity.Name)
			}
			if got, want := fmt.Sprint(names(g.Floor), names(g.AuditFloor), charged), fmt.Sprint(test.floor, test.auditFloor, test.all); got != want {
				t.Errorf("floor, audit floor, quotas: %s, want %s", got, want)
			}
			want := test.onStoreFailure
			if want == "" {
				want = policy.FailureLocal
			}
			if g.OnStoreFailure != want {
				t.Errorf("without a store: %s, want %s", g.OnStoreFailure, want)
			}
		})
	}
}

func names(policies []*policy.Policy) []string {
	var all []string
	for _, p := range policies {
		all = append(all, p.Identity.Name)
	}
	return all
}

func TestAChangeOfANamespaceChangesThatAlone(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	cluster := []*policy.Policy{w.admins(t, "b", "tier: Admin\nnamespaceSelector: {matchLabels: {team: b}}")}
	first := policy.NewSet(builtIn(), cluster, map[string]policy.Namespace{
		"a":    {Labels: labels.Set{"team": "a"}, Policies: []*policy.Policy{w.own(t, "one", "")}},
		"gone": {Labels: labels.Set{"team": "b"}}, "kept": {Labels: labels.Set{"team": "b"}},
	})
	second := first.With(map[string]*policy.Namespace{
		"a": {Labels: labels.Set{"team": "b"}}, "gone": nil, "new": {Labels: labels.Set{"team": "a"}},
	})
	var got []string
	for _, s := range []*policy.Set{first, second} {
		for _, n := range []string{"a", "gone", "kept", "new"} {
			g := s.For(t.Context(), n, nil, nil)
			got = append(got, g.Policy.Identity.Name)
		}
	}
	if want := []string{"one", "b", "b", "", "b", "", "b", ""}; !slices.Equal(got, want) {
		t.Errorf("before and after: %q, want %q", got, want)
	}
}
