package simulate

import (
	"strings"
	"testing"
)

// rule returns a YAML document with one policy or quota.
func rule(kind, metadata, spec string) string {
	return "---\napiVersion: eventquota.io/v1alpha1\nkind: " + kind + "\nmetadata: {" + metadata + "}\nspec: {" + spec + "}\n"
}

// TestUnusedRulesAreReported runs rules on Events in namespace shop about Pods: Warnings of kubelet with the reason BackOff,
// and Normal Events of operator.
func TestUnusedRulesAreReported(t *testing.T) {
	const limits = "limits: [{name: all, burst: 100, tokens: 1}]"
	first := rule("EventPolicy", "name: first, namespace: shop", "precedence: 1")
	for says, test := range map[string]struct{ rules, want string }{
		"a policy that governs":        {first, ""},
		"a quota that refuses nothing": {rule("EventQuota", "name: q, namespace: shop", limits), ""},
		"a policy in mode Audit":       {rule("ClusterEventPolicy", "name: p", "mode: Audit"), ""},
		"a policy after another one": {first + rule("EventPolicy", "name: p, namespace: shop", ""),
			"EventPolicy shop/p never applied: governed by EventPolicy shop/first, which comes first."},
		"a disabled policy": {rule("ClusterEventPolicy", "name: p", "mode: Disabled"),
			"ClusterEventPolicy p never applied: its mode is Disabled."},
		"a policy of another namespace": {rule("EventPolicy", "name: p, namespace: bank", ""),
			"EventPolicy bank/p never applied: it matches no Event, or other rules decide first."},
		"a condition that is false": {rule("ClusterEventPolicy", "name: p", "match: {types: [Normal], conditions: [{name: c, expression: event.count > 1000}]}"),
			"ClusterEventPolicy p never applied: it matches no Event, or other rules decide first."},
		"a condition that fails": {rule("ClusterEventPolicy", "name: p", "match: {conditions: [{name: c, expression: 'event.metadata.labels[\"a\"] == \"b\"'}]}"),
			"ClusterEventPolicy p never applied: it is not known to match any Event.\n" +
				"It is unknown for 71 writes whether ClusterEventPolicy p matches, because of its condition \"c\". Example: no such key: a."},
		"a namespaceSelector without Namespaces": {rule("ClusterEventPolicy", "name: p", "match: {namespaceSelector: {matchLabels: {team: a}}}"),
			"ClusterEventPolicy p never applied: it is not known to match any Event.\n" +
				"It is unknown for 71 writes whether ClusterEventPolicy p matches, because of its namespaceSelector. Example: the input lacks Namespace \"shop\", whose labels and annotations it reads."},
		"a condition on labels without Namespaces": {
			rule("ClusterEventPolicy", "name: p", "match: {conditions: [{name: c, expression: 'namespaceObject.metadata.labels[\"team\"] == \"a\"'}]}"),
			"ClusterEventPolicy p never applied: it is not known to match any Event.\n" +
				"It is unknown for 71 writes whether ClusterEventPolicy p matches, because of its condition \"c\". Example: the input lacks Namespace \"shop\", whose labels and annotations it reads."},
		"a quota whose limits another one replaces": {
			rule("ClusterEventQuota", "name: z", "precedence: 2000, limits: [{name: all, burst: 9, tokens: 1}, {name: more, burst: 9, tokens: 1}]") +
				rule("ClusterEventQuota", "name: ci", "precedence: 1, "+limits) + rule("ClusterEventQuota", "name: q", limits),
			"ClusterEventQuota q never applied: limit \"all\" is replaced by that of ClusterEventQuota ci.\n" +
				"Limit \"all\" of ClusterEventQuota z never applied: a limit with this name in another quota takes precedence.",
		},
		"a quota that exempt Events avoid": {
			rule("ClusterEventQuota", "name: q", limits) + rule("ClusterEventPolicy", "name: free", "action: Exempt"),
			"ClusterEventQuota q never applied: it matches no Event, or other rules decide first."},
	} {
		t.Run(says, func(t *testing.T) {
			out, _, err := simulateIn(t, "", "audit.log", "--policies", policyFile(t, test.rules))
			if err != nil {
				t.Fatal(err)
			}
			var notes []string
			for line := range strings.Lines(out) {
				if strings.Contains(line, " never applied: ") || strings.HasPrefix(line, "It is unknown ") {
					notes = append(notes, strings.TrimSpace(line))
				}
			}
			got := strings.Join(notes, "\n")
			if got != test.want && (test.want == "" || !strings.HasSuffix(got, test.want)) {
				t.Errorf("notes\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}
