package simulate

import (
	"strings"
	"testing"
)

// rule is a document of one rule.
func rule(kind, metadata, spec string) string {
	return "---\napiVersion: eventquota.io/v1alpha1\nkind: " + kind + "\nmetadata: {" + metadata + "}\nspec: {" + spec + "}\n"
}

// TestUnusedRulesAreReported runs rules on Events in namespace shop: Warnings BackOff of kubelet, and Normal
// Events of operator, all about Pods.
func TestUnusedRulesAreReported(t *testing.T) {
	const limits = "limits: [{name: all, burst: 100, tokens: 1}]"
	first := rule("EventPolicy", "name: first, namespace: shop", "precedence: 1")
	for says, test := range map[string]struct{ rules, want string }{
		"one that governs":                 {first, ""},
		"a quota that refuses nothing":     {rule("EventQuota", "name: q, namespace: shop", limits), ""},
		"an audited one that would govern": {rule("ClusterEventPolicy", "name: p", "mode: Audit"), ""},
		"one that another governs before": {first + rule("EventPolicy", "name: p, namespace: shop", ""),
			"EventPolicy shop/p never applied: governed by EventPolicy shop/first, which comes first."},
		"one that is disabled": {rule("ClusterEventPolicy", "name: p", "mode: Disabled"),
			"ClusterEventPolicy p never applied: its mode is Disabled."},
		"one of another namespace": {rule("EventPolicy", "name: p, namespace: bank", ""),
			"EventPolicy bank/p never applied: it matches no Event, or others decide before it."},
		"one whose condition is false": {rule("ClusterEventPolicy", "name: p", "match: {types: [Normal], conditions: [{name: c, expression: event.count > 1000}]}"),
			"ClusterEventPolicy p never applied: it matches no Event, or others decide before it."},
		"one whose condition fails": {rule("ClusterEventPolicy", "name: p", "match: {conditions: [{name: c, expression: 'event.metadata.labels[\"a\"] == \"b\"'}]}"),
			"ClusterEventPolicy p never applied: no Event is known to match it.\n" +
				"Whether ClusterEventPolicy p matches is unknown for 71 writes by its condition \"c\", such as: no such key: a."},
		"one that selects namespaces which are not in the input": {rule("ClusterEventPolicy", "name: p", "match: {namespaceSelector: {matchLabels: {team: a}}}"),
			"ClusterEventPolicy p never applied: no Event is known to match it.\n" +
				"Whether ClusterEventPolicy p matches is unknown for 71 writes by its namespaceSelector, such as: the input has no Namespace \"shop\", whose labels and annotations it reads."},
		"one that reads labels of namespaces which are not in the input": {
			rule("ClusterEventPolicy", "name: p", "match: {conditions: [{name: c, expression: 'namespaceObject.metadata.labels[\"team\"] == \"a\"'}]}"),
			"ClusterEventPolicy p never applied: no Event is known to match it.\n" +
				"Whether ClusterEventPolicy p matches is unknown for 71 writes by its condition \"c\", such as: the input has no Namespace \"shop\", whose labels and annotations it reads."},
		"a quota whose limits one before replaces, and not one after": {
			rule("ClusterEventQuota", "name: z", "precedence: 2000, limits: [{name: all, burst: 9, tokens: 1}, {name: more, burst: 9, tokens: 1}]") +
				rule("ClusterEventQuota", "name: ci", "precedence: 1, "+limits) + rule("ClusterEventQuota", "name: q", limits),
			"ClusterEventQuota q never applied: limit \"all\" is replaced by that of ClusterEventQuota ci.\n" +
				"Limit \"all\" of ClusterEventQuota z never applied: another quota has a limit of this name and goes before it.",
		},
		"a quota that is exempted from": {
			rule("ClusterEventQuota", "name: q", limits) + rule("ClusterEventPolicy", "name: free", "action: Exempt"),
			"ClusterEventQuota q never applied: it matches no Event, or others decide before it."},
	} {
		t.Run(says, func(t *testing.T) {
			out, _, err := simulateIn(t, "", "audit.log", "--policies", policyFile(t, test.rules))
			if err != nil {
				t.Fatal(err)
			}
			var notes []string
			for line := range strings.Lines(out) {
				if strings.Contains(line, " never applied: ") || strings.HasPrefix(line, "Whether ") {
					notes = append(notes, strings.TrimSpace(line))
				}
			}
			got := strings.Join(notes, "\n")
			if got != test.want && (test.want == "" || !strings.HasSuffix(got, test.want)) {
				t.Errorf("said\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}
