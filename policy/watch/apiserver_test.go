package watch_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/test/cluster" //nolint:depguard // only a real API server shows what its watches tell
)

func TestAPolicyOnTheAPIServerGovernsWithinASecond(t *testing.T) {
	t.Parallel()
	api := cluster.ForTest(t, cluster.Options{NoAudit: true})
	if _, err := envtest.InstallCRDs(api.Config, envtest.CRDInstallOptions{Paths: []string{"../../manifests/crds"}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	policies, err := dynamic.NewForConfig(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := metadata.NewForConfig(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := watch.New(watch.NewSources(policies, namespaces), policy.Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
	run(t, c)
	eventually(t, "synced", c.HasSynced)
	within := func(what, want string) {
		t.Helper()
		begun := time.Now()
		eventually(t, what, func() bool { return governs(c, "default") == want })
		if took := time.Since(begun); took > time.Second {
			t.Errorf("%s took %v", what, took)
		}
	}

	own := policies.Resource(v1alpha1.EventPolicies()).Namespace("default")
	u, err := own.Create(t.Context(), object(t, "default", "p", 0, "spamFilter: {burst: 3}"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	within("a new policy", "EventPolicy default/p@1")
	u.Object["spec"] = map[string]any{"action": "Admit"}
	if _, err := own.Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	within("a change", "EventPolicy default/p@2")
	brake := object(t, "", "brake", 0, "tier: Admin, action: Drop, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}")
	if _, err := policies.Resource(v1alpha1.ClusterEventPolicies()).Create(t.Context(), brake, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	within("a brake", "ClusterEventPolicy brake@1")
	if err := policies.Resource(v1alpha1.ClusterEventPolicies()).Delete(t.Context(), "brake", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	within("its end", "EventPolicy default/p@2")
}
