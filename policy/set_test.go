package policy_test

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
)

// limits are limits as text: quota/limit, in their order.
func limits(all iter.Seq2[*policy.Quota, *policy.QuotaLimit]) string {
	var names []string
	for q, l := range all {
		names = append(names, q.Identity.Name+"/"+l.Name)
	}
	return strings.Join(names, " ")
}

func TestTheFirstPolicyThatMatchesGoverns(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	type all []*policy.Policy
	admin := func(name, spec string) *policy.Policy { return w.admins(t, name, "tier: Admin\n"+spec) }
	baseline := func(name, spec string) *policy.Policy { return w.admins(t, name, spec) }
	own := func(name, spec string) *policy.Policy { return w.own(t, name, spec) }
	const (
		audit  = "mode: Audit\n"
		off    = "mode: Disabled\n"
		never  = "match: {conditions: [{name: c, expression: 'false'}]}\n"
		teamB  = "match: {namespaceSelector: {matchLabels: {team: b}}}\n"
		notB   = "match: {namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [b]}]}}\n"
		byName = "match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: a}}}\n"
	)
	for _, test := range []struct {
		says            string
		cluster, own    all
		labels          labels.Set
		governs, audits string
	}{
		{says: "nothing but the default", governs: "default"},
		{says: "Admin before the namespace's own before Baseline", cluster: all{baseline("c", ""), admin("b", "")}, own: all{own("a", "")}, governs: "ClusterEventPolicy b"},
		{says: "the namespace's own before Baseline", cluster: all{baseline("c", "precedence: 1")}, own: all{own("a", "")}, governs: "EventPolicy a/a"},
		{says: "Baseline before the default", cluster: all{baseline("c", "")}, governs: "ClusterEventPolicy c"},
		{says: "a lower precedence goes first", own: all{own("a", "precedence: 2000"), own("b", "precedence: 10"), own("c", "")}, governs: "EventPolicy a/b"},
		{says: "of equal precedence the lower name goes first", own: all{own("c", ""), own("b", ""), own("d", "")}, governs: "EventPolicy a/b"},
		{says: "one that does not match is passed by", cluster: all{admin("a", never)}, own: all{own("a", never), own("b", "")}, governs: "EventPolicy a/b"},
		{says: "one that is Disabled is as if it were not there", cluster: all{admin("a", off)}, own: all{own("a", off)}, governs: "default"},
		{says: "one whose selector does not match is as if it were not there", cluster: all{admin("a", teamB)}, governs: "default", labels: labels.Set{"team": "a"}},
		{says: "a selector that matches", cluster: all{admin("a", teamB)}, governs: "ClusterEventPolicy a", labels: labels.Set{"team": "b"}},
		{says: "a namespace whose labels are not known is selected by its name", cluster: all{admin("a", byName)}, governs: "ClusterEventPolicy a"},
		{says: "a selector that excludes selects what is not known", cluster: all{admin("a", notB)}, governs: "ClusterEventPolicy a"},
		{says: "a policy in mode Audit takes none out of force", cluster: all{admin("a", audit)}, own: all{own("a", "")}, governs: "EventPolicy a/a", audits: "ClusterEventPolicy a"},
		{says: "the first policy in mode Audit decides", cluster: all{baseline("z", audit)}, own: all{own("a", audit), own("b", audit)}, governs: "default", audits: "EventPolicy a/a"},
		{says: "a policy in mode Audit that would not govern does not decide", own: all{own("a", ""), own("b", audit)}, governs: "EventPolicy a/a"},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			namespaces := a(test.own)
			n := namespaces["a"]
			n.Labels = test.labels
			namespaces["a"] = n
			g := policy.NewSet(policy.Default(), policy.Rules{Policies: test.cluster}, namespaces).For(t.Context(), "a", backOff(), create())
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
		})
	}
}

func TestEveryQuotaThatMatchesLimits(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	type all []*policy.Quota
	limited := func(limit, spec string) string {
		return spec + "\nlimits: [{name: '" + limit + "', burst: 1, tokens: 1}]"
	}
	cluster := func(name, limit, spec string) *policy.Quota { return w.adminsQuota(t, name, limited(limit, spec)) }
	own := func(name, limit, spec string) *policy.Quota { return w.ownQuota(t, name, limited(limit, spec)) }
	const never = "match: {reasons: [Never]}"
	for _, test := range []struct {
		says            string
		cluster, own    all
		governs         *policy.Policy
		limits, audited string
	}{
		{says: "none", limits: ""},
		{says: "those of the cluster before those of the namespace", cluster: all{cluster("b", "x", ""), cluster("a", "y", "")}, own: all{own("d", "z", "")}, limits: "a/y b/x d/z"},
		{says: "those alone that match", cluster: all{cluster("a", "x", never), cluster("b", "y", "match: {reasons: [BackOff], types: [Warning], kinds: [Pod], controllers: [kubelet]}")}, own: all{own("c", "z", never)}, limits: "b/y"},
		{says: "a limit of a lower precedence replaces those of its name", cluster: all{cluster("rest", "x", ""), cluster("ci", "x", "precedence: 10"), cluster("c", "y", "")}, limits: "ci/x c/y"},
		{says: "one that does not match replaces nothing", cluster: all{cluster("rest", "x", ""), cluster("ci", "x", "precedence: 10\n"+never)}, limits: "rest/x"},
		{says: "one of a namespace replaces nothing", cluster: all{cluster("rest", "x", "")}, own: all{own("a", "x", ""), own("b", "x", "")}, limits: "rest/x a/x b/x"},
		{says: "one in mode Audit is counted only, and replaces only there", cluster: all{cluster("rest", "x", ""), cluster("new", "x", "precedence: 10\nmode: Audit")}, limits: "rest/x", audited: "new/x"},
		{says: "one that is Disabled is as if it were not there", cluster: all{cluster("a", "x", "mode: Disabled"), cluster("b", "x", "precedence: 9999")}, limits: "b/x"},
		{says: "a tenant exempts from its own", cluster: all{cluster("a", "x", "")}, own: all{own("b", "y", "")}, governs: w.own(t, "p", "action: Exempt"), limits: "a/x"},
		{says: "the cluster exempts from all", cluster: all{cluster("a", "x", "")}, own: all{own("b", "y", "")}, governs: w.admins(t, "p", "action: Exempt\ntier: Admin"), limits: ""},
		{says: "a tenant that drops is limited as all are", cluster: all{cluster("a", "x", "")}, governs: w.own(t, "p", "action: Drop"), limits: "a/x"},
		{says: "many", cluster: all{
			cluster("a", "a", ""), cluster("b", "b", ""), cluster("c", "c", ""), cluster("d", "d", ""), cluster("e", "e", ""),
			cluster("f", "f", ""), cluster("g", "g", ""), cluster("h", "h", ""), cluster("i", "i", ""), cluster("j", "a", ""),
		}, limits: "a/a b/b c/c d/d e/e f/f g/g h/h i/i"},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			rules, namespaces := policy.Rules{Quotas: test.cluster}, a(nil, test.own...)
			if p := test.governs; p != nil && p.Tier == "" {
				namespaces = a([]*policy.Policy{p}, test.own...)
			} else if p != nil {
				rules.Policies = []*policy.Policy{p}
			}
			g := policy.NewSet(policy.Default(), rules, namespaces).For(t.Context(), "a", backOff(), create())
			if got := limits(g.Limits()); got != test.limits {
				t.Errorf("limits %q, want %q", got, test.limits)
			}
			want := test.audited
			if want == "" {
				want = test.limits
			}
			if got := limits(g.AuditLimits()); got != want || g.Audited() != (test.audited != "") {
				t.Errorf("if nothing were audited: %q, want %q; audited: %t", got, want, g.Audited())
			}
		})
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
