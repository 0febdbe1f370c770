package watch_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/policy/watch"
)

const invalidSpec = "action: Nothing"

func TestPolicyChangeTakesEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.policies.Add(object(t, "a", "first", 1, ""))
	r.namespaces.Add(namespace("b", map[string]string{"team": "b"}))
	if r.HasSynced() || activePolicy(r.Cache, "a") != "default@0" {
		t.Errorf("before anything is known: synced %v, %s governs", r.HasSynced(), activePolicy(r.Cache, "a"))
	}
	r.start(t)
	r.wantActivePolicy(t, "a", "EventPolicy a/first@1")

	r.policies.Modify(object(t, "a", "first", 2, "precedence: 20"))
	r.wantActivePolicy(t, "a", "EventPolicy a/first@2")
	r.policies.Add(object(t, "a", "second", 1, "precedence: 10"))
	r.wantActivePolicy(t, "a", "EventPolicy a/second@1")
	r.policies.Delete(object(t, "a", "second", 1, ""))
	r.wantActivePolicy(t, "a", "EventPolicy a/first@2")

	r.clusterPolicies.Add(object(t, "", "brake", 1, "tier: Admin, match: {namespaceSelector: {matchLabels: {team: b}}}"))
	r.wantActivePolicy(t, "b", "ClusterEventPolicy brake@1")
	r.namespaces.Modify(namespace("b", map[string]string{"team": "c"}))
	r.wantActivePolicy(t, "b", "default@0")
	r.namespaces.Add(namespace("a", map[string]string{"team": "b"}))
	r.wantActivePolicy(t, "a", "ClusterEventPolicy brake@1")
	r.namespaces.Modify(namespace("b", map[string]string{"team": "b"}))
	r.wantActivePolicy(t, "b", "ClusterEventPolicy brake@1")
	r.namespaces.Delete(namespace("a", nil))
	r.wantActivePolicy(t, "a", "EventPolicy a/first@2")
	r.clusterPolicies.Modify(object(t, "", "brake", 2, "tier: Admin"))
	r.wantActivePolicy(t, "a", "ClusterEventPolicy brake@2")
	r.clusterPolicies.Delete(object(t, "", "brake", 2, ""))
	r.policies.Delete(object(t, "a", "first", 2, ""))
	r.wantActivePolicy(t, "a", "default@0")
	if left := r.Reports(); len(left) != 0 {
		t.Errorf("reports of policies that do not exist: %v", left)
	}
}

func TestInvalidChangeKeepsLastValidGeneration(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t)
	r.policies.Add(object(t, "a", "p", 1, "precedence: 20"))
	r.wantActivePolicy(t, "a", "EventPolicy a/p@1")
	r.policies.Modify(object(t, "a", "p", 2, invalidSpec))
	eventually(t, "reported", func() bool { return len(r.reports()) == 2 })
	r.wantActivePolicy(t, "a", "EventPolicy a/p@1")
	if err := r.Reports()[0].Err; err == nil || !strings.Contains(err.Error(), "spec.action") {
		t.Errorf("the error does not name the field: %v", err)
	}
	r.policies.Modify(object(t, "a", "p", 3, "mode: Nothing"))
	eventually(t, "reported", func() bool { return len(r.reports()) == 3 })
	r.wantActivePolicy(t, "a", "EventPolicy a/p@1")
	r.policies.Modify(object(t, "a", "p", 4, tooLargeSpec()))
	eventually(t, "reported", func() bool { return len(r.reports()) == 4 })
	r.wantActivePolicy(t, "a", "EventPolicy a/p@1")
	if err := r.Reports()[0].Err; err == nil || !strings.Contains(err.Error(), "spec.match: must have at most 8192 bytes") {
		t.Errorf("the error does not name the field: %v", err)
	}
	r.policies.Modify(object(t, "a", "p", 5, ""))
	r.wantActivePolicy(t, "a", "EventPolicy a/p@5")
	eventually(t, "reported", func() bool { return len(r.reports()) == 5 })
	want := []string{
		"EventPolicy a/p: 1 of 1 governs, valid true",
		"EventPolicy a/p: 1 of 2 governs, valid false",
		"EventPolicy a/p: 1 of 3 governs, valid false",
		"EventPolicy a/p: 1 of 4 governs, valid false",
		"EventPolicy a/p: 5 of 5 governs, valid true",
	}
	if diff := cmp.Diff(want, r.reports()); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

func TestInvalidPolicyDoesNotGovern(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	undecodable := object(t, "a", "odd", 1, "")
	undecodable.Object["spec"] = map[string]any{"spamFilter": map[string]any{"interval": "soon"}}
	r.policies.Add(object(t, "a", "bad", 1, invalidSpec))
	r.policies.Add(object(t, "a", "large", 1, tooLargeSpec()))
	r.policies.Add(undecodable)
	r.policies.Add(object(t, "a", "good", 1, "precedence: 9"))
	r.start(t)
	r.wantActivePolicy(t, "a", "EventPolicy a/good@1")
	eventually(t, "reported", func() bool { return len(r.reports()) == 4 })
	got := r.reports()
	slices.Sort(got)
	want := []string{
		"EventPolicy a/bad: 0 of 1 governs, valid false",
		"EventPolicy a/good: 1 of 1 governs, valid true",
		"EventPolicy a/large: 0 of 1 governs, valid false",
		"EventPolicy a/odd: 0 of 1 governs, valid false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

func TestRecreatedPolicyInheritsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t)
	r.policies.Add(object(t, "a", "p", 1, ""))
	r.wantActivePolicy(t, "a", "EventPolicy a/p@1")
	other := object(t, "a", "p", 1, invalidSpec)
	other.SetUID("another")
	r.policies.Modify(other) // as if the end of the first one had been missed
	r.wantActivePolicy(t, "a", "default@0")
}

func TestNamespaceHasOnlyItsLabels(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.clusterPolicies.Add(object(t, "", "brake", 1, "match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: a}}}"))
	r.start(t)
	r.wantActivePolicy(t, "a", "ClusterEventPolicy brake@1") // by its name, as long as it is not known
	r.namespaces.Add(namespace("a", nil))
	r.wantActivePolicy(t, "a", "default@0")
}

func TestNamespaceAnnotationsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	expression := "namespaceObject.metadata.annotations['a'] == 'b' && !('long' in namespaceObject.metadata.annotations)"
	r.clusterPolicies.Add(object(t, "", "reads", 1, `match: {conditions: [{name: c, expression: "`+expression+`"}]}`))
	expression = "namespaceObject.metadata.annotations['n16'] != ''"
	r.clusterPolicies.Add(object(t, "", "bounded", 1, `match: {conditions: [{name: c, expression: "`+expression+`"}]}`))
	expression = "namespaceObject.metadata.annotations['n99'] != ''"
	r.clusterPolicies.Add(object(t, "", "beyond", 1, `precedence: 1, match: {conditions: [{name: c, expression: "`+expression+`"}]}`))
	annotated := func(annotations map[string]string) *metav1.PartialObjectMetadata {
		n := namespace("a", nil)
		n.Annotations = annotations
		return n
	}
	r.namespaces.Add(annotated(map[string]string{"a": "b"}))
	r.start(t)
	r.wantActivePolicy(t, "a", "ClusterEventPolicy reads@1")
	r.namespaces.Modify(annotated(map[string]string{"a": "b", "long": strings.Repeat("x", 1000)}))
	r.wantActivePolicy(t, "a", "default@0") // as there are others
	r.namespaces.Modify(annotated(map[string]string{"a": "c"}))
	r.wantActivePolicy(t, "a", "default@0")
	many := map[string]string{"a": "b"}
	for i := range 100 {
		many[fmt.Sprint("n", i)] = strings.Repeat("x", 400)
	}
	r.namespaces.Modify(annotated(many))
	r.wantActivePolicy(t, "a", "ClusterEventPolicy bounded@1")
}

func TestHasSyncedAfterFirstSet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.clusterPolicies.Add(object(t, "", "first", 1, ""))
	r.start(t)
	r.clusterPolicies.Add(object(t, "", "second", 1, ""))
	eventually(t, "reported", func() bool { return len(r.reports()) == 2 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if want := []bool{false, true}; !slices.Equal(r.synced, want) {
		t.Errorf("synced %v when the Sets with the first and the second were made, want %v", r.synced, want)
	}
}

func TestReportHasLastReceivedObject(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	u := object(t, "a", "p", 1, "mode: Audit")
	u.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"})
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
	u.SetLabels(map[string]string{"a": "b"})
	u.SetFinalizers([]string{"example.com/f"})
	u.SetOwnerReferences([]metav1.OwnerReference{{Name: "o"}})
	r.policies.Add(u)
	r.clusterPolicies.Add(object(t, "", "p", 1, "mode: Disabled"))
	r.start(t)
	eventually(t, "compiled", func() bool { return len(r.reports()) == 2 })
	modes := map[string]string{}
	for _, report := range r.Reports() {
		modes[report.String()] = string(report.Mode)
		u := report.Object
		u = u.DeepCopy()
		kind, fields := u.GetKind(), slices.Sorted(maps.Keys(u.Object["metadata"].(map[string]any)))
		delete(u.Object, "apiVersion")
		delete(u.Object, "kind")
		delete(u.Object, "metadata")
		if kind != report.Kind || len(u.Object) > 0 || !slices.Equal(slices.DeleteFunc(fields, func(name string) bool {
			return slices.Contains([]string{"name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp"}, name)
		}), nil) {
			t.Errorf("%s is given as %v, want it without what nobody reads", report, u)
		}
	}
	if want := map[string]string{"EventPolicy a/p": "Audit", "ClusterEventPolicy p": "Disabled"}; !cmp.Equal(modes, want) {
		t.Errorf("modes %v, want %v", modes, want)
	}
	counted := object(t, "a", "p", 1, "mode: Audit")
	counted.Object["status"] = map[string]any{"observedGeneration": int64(1)}
	r.policies.Modify(counted)
	eventually(t, "given with its status", func() bool {
		return slices.ContainsFunc(r.Reports(), func(report watch.Report) bool { return report.Object.Object["status"] != nil })
	})
	r.policies.Add(object(t, "b", "next", 1, ""))
	r.wantActivePolicy(t, "b", "EventPolicy b/next@1")
	eventually(t, "reported", func() bool { return len(r.reports()) >= 3 })
	if reported, all := len(r.reports()), len(r.Reports()); reported != 3 || all != 3 {
		t.Errorf("%d reports of %d rules, want one for each of three: a status is no change", reported, all)
	}
}

// TestTooLargeStatusIsIgnored holds it for rules of namespaces: so it is replaced, and takes no memory.
func TestTooLargeStatusIsIgnored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, name := range []string{"small", "large"} {
		u, admins := object(t, "a", name, 1, ""), object(t, "", name, 1, "")
		for _, u := range []*unstructured.Unstructured{u, admins} {
			said := watch.MaxStatusSize / 2
			if name == "large" {
				said *= 2
			}
			u.Object["status"] = map[string]any{"said": strings.Repeat("x", said)}
		}
		r.policies.Add(u)
		r.clusterPolicies.Add(admins)
	}
	r.start(t)
	eventually(t, "known", func() bool { return len(r.Reports()) == 4 })
	for _, report := range r.Reports() {
		if kept, want := report.Object.Object["status"] != nil, report.String() != "EventPolicy a/large"; kept != want {
			t.Errorf("%s: a status is kept: %v, want %v", report, kept, want)
		}
	}
	for namespace, want := range map[string]int{"a": 2, "": 2, "b": 0} {
		for _, report := range r.ReportsOf(namespace) {
			if want--; report.Namespace != namespace {
				t.Errorf("namespace %q has a report of %s", namespace, report)
			}
		}
		if want != 0 {
			t.Errorf("namespace %q lacks %d reports", namespace, want)
		}
	}
}

const limit = "limits: [{name: all, burst: 1, tokens: 1}]"

// limits are the quotas that limit the Events of a namespace.
func limits(c *watch.Cache, namespace string) (all []string) {
	g := c.Current().Resolve(context.Background(), namespace, &corev1.Event{}, nil)
	for q := range g.Limits() {
		all = append(all, q.Name)
	}
	return all
}

func TestQuotasAreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.quotas.Add(quota(t, "a", "same", 1, limit))
	r.clusterQuotas.Add(quota(t, "", "same", 1, limit))
	r.policies.Add(object(t, "a", "same", 1, ""))
	r.start(t)
	want := func(names ...string) {
		t.Helper()
		eventually(t, "as wanted", func() bool { return slices.Equal(limits(r.Cache, "a"), names) })
	}
	want("ClusterEventQuota same", "EventQuota a/same")
	r.wantActivePolicy(t, "a", "EventPolicy a/same@1")
	r.quotas.Modify(quota(t, "a", "same", 2, "mode: Disabled, "+limit))
	want("ClusterEventQuota same")
	r.clusterQuotas.Delete(quota(t, "", "same", 1, limit))
	want()
}

// TestExcludedRulesAreReportedAndReturn has conditions of which each costs more than a quarter of what all may.
func TestExcludedRulesAreReportedAndReturn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	costly := func(i int) *unstructured.Unstructured {
		return object(t, "", fmt.Sprint("p", i), 1, fmt.Sprintf("match: {conditions: [{name: c, expression: \"event.message.matches('[a-c]{55}%d')\"}]}", i))
	}
	const n = 8
	for i := range n {
		r.clusterPolicies.Add(costly(i))
	}
	r.start(t)
	left := func() (names []string) {
		for _, report := range r.Reports() {
			if report.Excluded != nil && report.ActiveGeneration == 0 {
				names = append(names, report.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	before := left()
	if len(before) == 0 || len(before) == n {
		t.Fatalf("left out: %v, want some", before)
	}
	eventually(t, "it is reported", func() bool {
		return slices.Contains(r.reports(), "ClusterEventPolicy "+before[0]+": 0 of 1 governs, valid true")
	})
	r.clusterPolicies.Delete(costly(0))
	eventually(t, "one comes back", func() bool { return slices.Equal(left(), before[1:]) })
}
