package e2e

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/replica"
)

// The policies of TestManyTenantPolicies. Each has the maximum size and an annotation.
const (
	tenants, policiesEach        = 10, 30
	reasonBytes, annotationBytes = 120, 64 << 10
	// memoryLimit is half of the memory limit of the shipped Deployment: twice as many policies would fit.
	memoryLimit = 256 << 20
)

// TestManyTenantPolicies checks that tenants with many policies of the maximum size do not delay a change by the
// admin, and do not exceed a replica's memory. It tests a running replica and one that has just started.
func TestManyTenantPolicies(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	known := e.namespace("known")
	e.waitPoliciesGovern(known)
	config := rest.CopyConfig(e.config)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	e.must(err)
	var writers errgroup.Group
	writers.SetLimit(4)
	for i := range tenants {
		namespace := e.namespace(fmt.Sprint("tenant-", i))
		for j := range policiesEach {
			writers.Go(func() error {
				_, err := client.Resource(v1alpha1.Resources()[v1alpha1.KindEventPolicy]).Namespace(namespace).
					Create(t.Context(), largestPolicy(namespace, fmt.Sprint("p-", j)), metav1.CreateOptions{FieldManager: "test"})
				return err
			})
		}
	}
	e.must(writers.Wait())
	e.checkAdminChange(known, "First")

	e.must(e.replica.Stop())
	e.checkMemory()
	e.must(e.cluster.RemoveWebhooks(t.Context()))
	e.replica, err = replica.Start(t.Context(), e.cluster, e.program())
	e.must(err)
	e.must(e.replica.Install(t.Context()))
	e.checkAdminChange(known, "Second")
	e.must(e.replica.Stop())
	e.checkMemory()
}

// checkAdminChange sends an Event for every tenant. While the tenants' policies are compiled, it drops a reason in
// all namespaces.
func (e *env) checkAdminChange(namespace, reason string) {
	e.Helper()
	for i := range tenants {
		e.dropped(fmt.Sprint("tenant-", i), "Any"+reason)
	}
	e.kubectl(fmt.Sprintf("apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventPolicy\nmetadata: {name: admins}\n"+
		"spec: {tier: Admin, action: Drop, match: {reasons: [%s]}}", reason), "apply", "-f", "-")
	e.eventuallyInForce("the admin's change", func() bool { return e.dropped(namespace, reason) })
	e.eventually("the change is in force for a tenant", func() bool { return e.dropped("tenant-0", reason) })
}

// checkMemory checks the replica's peak memory. The replica must have stopped.
func (e *env) checkMemory() {
	e.Helper()
	peak := e.replica.PeakMemory()
	e.Logf("the replica used up to %d MiB of memory", peak>>20)
	if peak > memoryLimit {
		e.Errorf("the replica used %d MiB of memory, want at most %d", peak>>20, memoryLimit>>20)
	}
}

// largestPolicy returns a policy of about the maximum size. It matches nothing.
func largestPolicy(namespace, name string) *unstructured.Unstructured {
	reasons := make([]any, policy.MaxRuleSize/(reasonBytes+16)-2)
	for i := range reasons {
		reasons[i] = fmt.Sprintf("%-*d", reasonBytes, i)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"match": map[string]any{"reasons": reasons}},
	}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(v1alpha1.KindEventPolicy))
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(map[string]string{"example.com/l": strings.Repeat("l", 63)})
	u.SetAnnotations(map[string]string{"example.com/a": strings.Repeat("a", annotationBytes)})
	return u
}
