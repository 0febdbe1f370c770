package chart

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// TestQuotaPresetsMatchComponents compares the quota of each preset with that of the component.
func TestQuotaPresetsMatchComponents(t *testing.T) {
	for _, nodes := range []int{100, 1000, 5000} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			component, err := shipped.Objects("overlays/single-replica", fmt.Sprintf("components/recommended-%d-nodes", nodes))
			if err != nil {
				t.Fatal(err)
			}
			want := normalizeNumbers(find(t, component, quotaKind.Kind, "pod-lives").Object["spec"])
			got := find(t, mustRender(t, fmt.Sprintf("quotas: {preset: %d}", nodes)).Objects, quotaKind.Kind, "pod-lives")
			if diff := cmp.Diff(want, normalizeNumbers(got.Object["spec"])); diff != "" {
				t.Errorf("component (-) and chart (+) differ:\n%s", diff)
			}
		})
	}
	for _, o := range mustRender(t, "").Objects {
		if o.GetName() == "pod-lives" {
			t.Error("pod-lives is there unasked")
		}
	}
}

// TestPresetFollowsUpgrades checks when a quota of the chart is replaced, and when it is kept, by Helm 3. TestReleaseLifecycle checks the same
// of the ceiling by Helm 4.
func TestPresetFollowsUpgrades(t *testing.T) {
	t.Parallel()
	c := planes.ForTest(t)
	api, err := client.New(c.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := newHelm(t, c, helm3, namespace)
	before := clusterObjects(t, c, api)
	// The burst of the last limit tells the presets apart.
	expect := func(step string, burst int) types.UID {
		t.Helper()
		quota := get(t, api, quotaKind, "", "pod-lives")
		limits, _, _ := unstructured.NestedSlice(quota.Object, "spec", "limits")
		last := limits[len(limits)-1].(map[string]any)
		if fmt.Sprint(last["name"], last["burst"]) != fmt.Sprint("cluster", burst) {
			t.Errorf("%s: the last limit is %v, want a burst of %d", step, last, burst)
		}
		return quota.GetUID()
	}
	patch := func(says, patch string) {
		t.Helper()
		quota := get(t, api, quotaKind, "", "pod-lives")
		if err := api.Patch(t.Context(), quota, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatalf("%s: %v", says, err)
		}
	}
	same := func(step string, burst int, uid types.UID) {
		t.Helper()
		if got := expect(step, burst); got != uid {
			t.Errorf("%s: the quota was created again", step)
		}
	}
	h.install(chartDir, "quotas: {preset: 100}")
	uid := expect("installation", 800)
	h.upgrade(chartDir, "{quotas: {preset: 100}, replicaCount: 1, shutdownDelaySeconds: 6}")
	same("upgrade of something else", 800, uid)
	h.upgrade(chartDir, "quotas: {preset: 1000}")
	uid = expect("upgrade", 4000)
	h.upgrade(chartDir, "")
	same("upgrade to none", 4000, uid)
	h.upgrade(newerChart(t), "{quotas: {preset: 5000}, replicaCount: 3, redis: {tryOut: {enabled: true}}}")
	uid = expect("upgrade to a preset again", 20000)
	checkCategory(t, api, true)
	password := redisPassword(t, api)
	h.mustRun("rollback", "1")
	same("rollback", 20000, uid)
	checkCategory(t, api, false)
	if slices.Contains(clusterObjects(t, c, api), "Secret "+namespace+"/redis") {
		t.Error("the rollback left the Redis that it did not have")
	}
	h.mustRun("rollback", "5")
	if got := redisPassword(t, api); got == "" || got != password {
		t.Errorf("after a rollback to it, the password of Redis is %q, and was %q", got, password)
	}
	h.mustRun("uninstall")
	same("uninstallation", 20000, uid)
	if diff := cmp.Diff(leftByUninstall(before, "ClusterEventQuota pod-lives"), clusterObjects(t, c, api)); diff != "" {
		t.Errorf("after the uninstallation, want (-), got (+):\n%s", diff)
	}
	h.install(chartDir, "quotas: {preset: 1000}")
	uid = expect("another installation", 4000)

	patch("label", `{"metadata":{"labels":{"team":"platform"}}}`)
	h.upgrade(chartDir, "quotas: {preset: 1000}")
	same("upgrade after a label", 4000, uid)
	patch("edit", `{"spec":{"mode":"Audit"}}`)
	h.upgrade(chartDir, "quotas: {preset: 100}")
	same("upgrade of an edited quota", 4000, uid)
	h.mustRun("uninstall")
	h.install(chartDir, "quotas: {preset: 100}")
	same("installation beside an edited quota", 4000, uid)

	if err := api.Delete(t.Context(), get(t, api, quotaKind, "", "pod-lives")); err != nil {
		t.Fatal(err)
	}
	h.upgrade(chartDir, "quotas: {preset: 100}")
	expect("upgrade after a deletion", 800)

	// A quota that a user created has no checksum.
	mine := get(t, api, quotaKind, "", "pod-lives")
	if err := api.Delete(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	mine.SetResourceVersion("")
	mine.SetAnnotations(nil)
	createObject(t, api, mine)
	h.upgrade(chartDir, "quotas: {preset: 5000}")
	same("upgrade of a user's quota", 800, mine.GetUID())
}
