package chart

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

const quotaKind = "ClusterEventQuota"

// TestQuotaPresetsMatchComponents compares the quota of each preset with that of the component. It is a hook only if the API server
// does not know its kind yet.
func TestQuotaPresetsMatchComponents(t *testing.T) {
	for _, nodes := range []int{100, 1000, 5000} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			values := fmt.Sprintf("quotas: {preset: %d}", nodes)
			component, err := shipped.Objects("overlays/single-replica", fmt.Sprintf("components/recommended-%d-nodes", nodes))
			if err != nil {
				t.Fatal(err)
			}
			want := normalizeNumbers(find(t, component, quotaKind, "pod-lives").Object["spec"])
			known, err := render(namespace, values, "eventquota.io/v1alpha1/"+quotaKind)
			if err != nil {
				t.Fatal(err)
			}
			for says, objects := range map[string][]*unstructured.Unstructured{"hook": mustRender(t, values).Hooks, "object": known.Objects} {
				got := find(t, objects, quotaKind, "pod-lives")
				if diff := cmp.Diff(want, normalizeNumbers(got.Object["spec"])); diff != "" {
					t.Errorf("%s: component (-) and chart (+) differ:\n%s", says, diff)
				}
				if _, isHook := got.GetAnnotations()[hook]; isHook != (says == "hook") {
					t.Errorf("%s: annotations %v", says, got.GetAnnotations())
				}
			}
		})
	}
	for _, o := range mustRender(t, "").Hooks {
		if o.GetName() == "pod-lives" {
			t.Error("pod-lives is there unasked")
		}
	}
}

// TestPresetFollowsUpgrades installs a preset by the hook, and upgrades to others, which take the quota over from the hook.
func TestPresetFollowsUpgrades(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	api, err := client.New(c.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionKind{Group: "eventquota.io", Version: "v1alpha1", Kind: quotaKind}
	uid := ""
	expect := func(step string, burst int) {
		t.Helper()
		quota := get(t, api, kind, "", "pod-lives")
		limits, _, _ := unstructured.NestedSlice(quota.Object, "spec", "limits")
		last := limits[len(limits)-1].(map[string]any)
		if fmt.Sprint(last["name"], last["burst"]) != fmt.Sprint("cluster", burst) {
			t.Errorf("%s: the last limit is %v, want a burst of %d", step, last, burst)
		}
		if uid == "" {
			uid = string(quota.GetUID())
		}
		if string(quota.GetUID()) != uid {
			t.Errorf("%s: the quota was created again", step)
		}
	}
	newHelm(t, c, namespace).install(loadChart(t), "quotas: {preset: 100}")
	expect("installation", 800)
	// Each with a new client, as in a new process: a Helm configuration caches the kinds that it finds first.
	newHelm(t, c, namespace).upgrade(loadChart(t), "quotas: {preset: 1000}")
	expect("upgrade from the hook", 4000)
	newHelm(t, c, namespace).upgrade(loadChart(t), "quotas: {preset: 5000}")
	expect("another upgrade", 20000)
	newHelm(t, c, namespace).upgrade(loadChart(t), "")
	expect("upgrade to none", 20000)
	newHelm(t, c, namespace).upgrade(loadChart(t), "quotas: {preset: 100}")
	expect("upgrade to a preset again", 800)
	newHelm(t, c, namespace).uninstall()
	expect("uninstallation", 800)
	newHelm(t, c, namespace).install(loadChart(t), "quotas: {preset: 1000}")
	expect("another installation", 4000)
}
