package policy_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
)

func TestShadowedRules(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	const (
		admin  = "tier: Admin\n"
		audit  = "mode: Audit\n"
		off    = "mode: Disabled\n"
		first  = "precedence: 1\n"
		normal = "match: {types: [Normal]}\n"
		ab     = "match: {reasons: [a, b], kinds: [Pod]}\n"
		bc     = "match: {reasons: [b, c]}\n"
		b      = "match: {reasons: [b], kinds: [Pod], controllers: [kubelet]}\n"
		glob   = "match: {messages: ['*a*']}\n"
		globs  = "match: {messages: ['b', '*a*']}\n"
		byA    = "match: {conditions: [{name: x, expression: 'event.count > 1'}]}\n"
		byAB   = "match: {conditions: [{name: v, expression: 'event.type == \"b\"'}, {name: z, expression: 'event.count > 1'}]}\n"
		teamB  = "match: {namespaceSelector: {matchLabels: {team: b}}}\n"
		teamB2 = "match: {namespaceSelector: {matchExpressions: [{key: team, operator: In, values: [b]}]}}\n"
		teamC  = "match: {namespaceSelector: {matchLabels: {team: c}}}\n"
		zoneZ  = "match: {namespaceSelector: {matchLabels: {zone: z}}}\n"
		inB    = "match: {types: [Normal], namespaceSelector: {matchLabels: {team: b}}}\n"
	)
	type all []*policy.Policy
	cluster := func(name, spec string) *policy.Policy { return w.clusterPolicy(t, name, spec) }
	own := func(name, spec string) *policy.Policy { return w.policy(t, name, spec) }
	for _, test := range []struct {
		says         string
		cluster, own all
		by           string // what stands before p; empty for nothing
	}{
		{says: "one that is alone", own: all{own("p", "")}},
		{says: "the same match, later", own: all{own("a", ""), own("p", "")}, by: "EventPolicy a/a"},
		{says: "the same match, earlier", own: all{own("p", ""), own("z", "")}},
		{says: "a lower precedence", own: all{own("z", first), own("p", "")}, by: "EventPolicy a/z"},
		{says: "a wider match", own: all{own("a", ab), own("p", b)}, by: "EventPolicy a/a"},
		{says: "a match that overlaps", own: all{own("a", ab), own("p", bc)}},
		{says: "a narrower match", own: all{own("a", normal), own("p", "")}},
		{says: "some of the conditions", cluster: all{cluster("a", byA), cluster("p", byAB)}, by: "ClusterEventPolicy a"},
		{says: "more conditions", cluster: all{cluster("a", byAB), cluster("p", byA)}},
		{says: "more messages", own: all{own("a", globs), own("p", glob)}, by: "EventPolicy a/a"},
		{says: "some of the messages", own: all{own("a", glob), own("p", globs)}},
		{says: "messages of one that has none", own: all{own("a", globs), own("p", "")}},
		{says: "tier Admin before the namespace's own", cluster: all{cluster("c", admin)}, own: all{own("p", normal)}, by: "ClusterEventPolicy c"},
		{says: "tier Admin that selects the namespace", cluster: all{cluster("c", admin+teamB)}, own: all{own("p", "")}, by: "ClusterEventPolicy c"},
		{says: "tier Admin that selects others", cluster: all{cluster("c", admin+teamC)}, own: all{own("p", "")}},
		{says: "tier Admin that may select the namespace", cluster: all{cluster("c", admin+zoneZ)}, own: all{own("p", "")}},
		{says: "tier Baseline after the namespace's own", cluster: all{cluster("c", first)}, own: all{own("p", "")}},
		{says: "a namespace's own hides none of the cluster", cluster: all{cluster("p", "")}, own: all{own("a", "")}},
		{says: "tier Admin before tier Baseline", cluster: all{cluster("z", admin), cluster("p", first)}, by: "ClusterEventPolicy z"},
		{says: "tier Baseline after tier Admin", cluster: all{cluster("a", first), cluster("p", admin)}},
		{says: "an equal selector", cluster: all{cluster("a", teamB), cluster("p", inB)}, by: "ClusterEventPolicy a"},
		{says: "a selector that may select the same", cluster: all{cluster("a", teamB2), cluster("p", inB)}},
		{says: "no selector", cluster: all{cluster("a", ""), cluster("p", inB)}, by: "ClusterEventPolicy a"},
		{says: "a selector before none", cluster: all{cluster("a", teamB), cluster("p", "")}},
		{says: "one in mode Audit does not govern", own: all{own("a", audit), own("p", "")}},
		{says: "one in mode Audit hides another one", own: all{own("a", audit), own("p", audit)}, by: "EventPolicy a/a"},
		{says: "one in mode Audit is hidden by one that enforces", own: all{own("a", ""), own("p", audit)}, by: "EventPolicy a/a"},
		{says: "one that is Disabled", own: all{own("a", off), own("p", "")}},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			namespaces := namespaceA(test.own)
			n := namespaces["a"]
			n.Labels, n.PartialLabels = labels.Set{"team": "b"}, true
			namespaces["a"] = n
			s := policy.NewSet(policy.Default(), policy.Rules{Policies: test.cluster}, namespaces)
			shadowed := s.Shadowed("")
			maps.Copy(shadowed, s.Shadowed("a"))
			got := slices.Concat(shadowed["ClusterEventPolicy p"], shadowed["EventPolicy a/p"])
			if want := "governed by " + test.by + ", which comes first"; test.by == "" && len(got) > 0 || test.by != "" && !slices.Equal(got, []string{want}) {
				t.Errorf("%q, want it to be by %q", got, test.by)
			}
		})
	}
}

func TestReplacedLimitsAreShadowed(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	limited := func(spec string, limits ...string) string {
		spec += "limits:\n"
		for _, l := range limits {
			spec += "- {name: '" + l + "', burst: 1, tokens: 1}\n"
		}
		return spec
	}
	const (
		first  = "precedence: 1\n"
		audit  = "mode: Audit\n"
		normal = "match: {types: [Normal]}\n"
	)
	for _, test := range []struct{ says, before, spec, want string }{
		{"one of two", limited(first, "x"), limited("", "x", "y"), `limit "x" is replaced by that of ClusterEventQuota ci`},
		{"both", limited(first, "y", "x"), limited(normal, "x", "y"), `limit "x" is replaced by that of ClusterEventQuota ci; limit "y" is replaced by that of ClusterEventQuota ci`},
		{"of other names", limited(first, "z"), limited("", "x", "y"), ""},
		{"by one that matches less", limited(first+normal, "x"), limited("", "x"), ""},
		{"by one of a higher precedence", limited("precedence: 2000\n", "x"), limited("", "x"), ""},
		{"by one in mode Audit", limited(first+audit, "x"), limited("", "x"), ""},
		{"by one of which it may be unknown whether it matches", limited(first+"match: {messages: ['*a*']}\n", "x"), limited("match: {messages: ['*a*']}\n", "x"), ""},
		{"in mode Audit", limited(first+audit, "x"), limited(audit, "x"), `limit "x" is replaced by that of ClusterEventQuota ci`},
		{"by one that is Disabled", limited(first+"mode: Disabled\n", "x"), limited("", "x"), ""},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			q, own := w.clusterQuota(t, "q", test.spec), w.quota(t, "q", limited("", "x"))
			s := policy.NewSet(policy.Default(), policy.Rules{Quotas: []*policy.Quota{q, w.clusterQuota(t, "ci", test.before)}}, namespaceA(nil, own))
			if got := strings.Join(s.Shadowed("")[q.Name], "; "); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			if got := s.Shadowed("a"); len(got) > 0 {
				t.Errorf("a quota of a namespace: %q", got)
			}
		})
	}
}
