package watch_test

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSelectedLabelsAreAlwaysKept holds that a namespace with many labels is selected by each of them all the same,
// also by a rule that is new.
func TestSelectedLabelsAreAlwaysKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	many := manyLabels("b")
	r.namespaces.Add(namespace("b", many))
	r.clusterPolicies.Add(object(t, "", "first", 1, "precedence: 9, match: {namespaceSelector: {matchLabels: {zone: x}}}"))
	r.namespaces.during = func() { t.Error("a namespace is read again although the rule was there before it") }
	r.start(t)
	if got := activePolicy(r.Cache, "b"); got != "ClusterEventPolicy first@1" {
		t.Errorf("%s governs once synced", got)
	}
	r.namespaces.during = nil
	r.clusterPolicies.Add(object(t, "", "name", 1, "precedence: 8, match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: b}}}"))
	r.wantActivePolicy(t, "b", "ClusterEventPolicy name@1")
	r.clusterPolicies.Add(object(t, "", "second", 1, "precedence: 7, match: {namespaceSelector: {matchExpressions: [{key: zzz, operator: Exists}]}}"))
	r.wantActivePolicy(t, "b", "ClusterEventPolicy second@1")
	delete(many, "zzz")
	r.namespaces.Modify(namespace("b", many))
	r.wantActivePolicy(t, "b", "ClusterEventPolicy name@1")
}

// manyLabels are those of a namespace that has more than are kept, zone and zzz among those that are not.
func manyLabels(name string) map[string]string {
	many := map[string]string{metav1.NamespaceDefault: "n", "kubernetes.io/metadata.name": name, "zone": "x", "zzz": "y"}
	for i := range 1000 {
		many[fmt.Sprintf("a%04d", i)] = "much"
	}
	return many
}

// TestNewSelectorIsUnknownUntilLabelsAreRead uses selectors by a label that was not kept. Until the namespace has been read
// again, the quota limits and the policy does not govern. From then on, both apply as they select.
func TestNewSelectorIsUnknownUntilLabelsAreRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	release := make(chan struct{})
	r.namespaces.during = func() { <-release }
	r.namespaces.Add(namespace("b", manyLabels("b")))
	r.start(t)
	r.clusterPolicies.Add(object(t, "", "none", 1, "match: {namespaceSelector: {matchExpressions: [{key: zzz, operator: DoesNotExist}]}}"))
	r.clusterPolicies.Add(object(t, "", "same", 1, "precedence: 2000, match: {namespaceSelector: {matchLabels: {zzz: 'y'}}}"))
	r.clusterQuotas.Add(quota(t, "", "other", 1, limitsOf(1)+", match: {namespaceSelector: {matchLabels: {zzz: other}}}"))
	limited := func() bool { return slices.Contains(limits(r.Cache, "b"), "ClusterEventQuota other") }
	eventually(t, "limited by what may select it", limited)
	eventually(t, "governed by no policy that may select it", func() bool { return len(r.reports()) == 3 && activePolicy(r.Cache, "b") == "default@0" })
	close(release)
	r.wantActivePolicy(t, "b", "ClusterEventPolicy same@1")
	eventually(t, "limited by none of others", func() bool { return !limited() })
}
