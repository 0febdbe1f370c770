package watch_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLabelsThatRulesSelectByAreAlwaysKept holds that a namespace with many labels is selected by each of them all the same,
// also by a rule that is new.
func TestLabelsThatRulesSelectByAreAlwaysKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	many := map[string]string{metav1.NamespaceDefault: "n", "kubernetes.io/metadata.name": "b", "zone": "x", "zzz": "y"}
	for i := range 1000 {
		many[fmt.Sprintf("a%04d", i)] = "much"
	}
	r.namespaces.Add(namespace("b", many))
	r.cluster.Add(object(t, "", "first", 1, "precedence: 9, match: {namespaceSelector: {matchLabels: {zone: x}}}"))
	r.start(t)
	r.wantGoverns(t, "b", "ClusterEventPolicy first@1")
	r.cluster.Add(object(t, "", "name", 1, "precedence: 8, match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: b}}}"))
	r.wantGoverns(t, "b", "ClusterEventPolicy name@1")
	r.cluster.Add(object(t, "", "second", 1, "precedence: 7, match: {namespaceSelector: {matchExpressions: [{key: zzz, operator: Exists}]}}"))
	r.wantGoverns(t, "b", "ClusterEventPolicy second@1")
	delete(many, "zzz")
	r.namespaces.Modify(namespace("b", many))
	r.wantGoverns(t, "b", "ClusterEventPolicy name@1")
}
