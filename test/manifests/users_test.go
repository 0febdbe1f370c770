package main

import (
	"context"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster"
)

// checkDefaultRoles binds users to the ClusterRoles admin, edit and view in a namespace. It checks that admin and edit can write the
// policies and quotas of that namespace only, and that view can only read them. None can use cluster-scoped ones or write a status.
func checkDefaultRoles(t *testing.T, c *cluster.Cluster, admin kubernetes.Interface) {
	t.Helper()
	for _, name := range []string{"team", "neighbor"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	specs := map[string]map[string]any{
		v1alpha1.KindEventPolicy: {"action": "Exempt"},
		v1alpha1.KindEventQuota:  {"limits": []any{map[string]any{"name": "all", "burst": int64(10), "tokens": int64(1)}}},
	}
	clusterSpecs := map[string]map[string]any{
		v1alpha1.KindClusterEventPolicy: specs[v1alpha1.KindEventPolicy],
		v1alpha1.KindClusterEventQuota:  specs[v1alpha1.KindEventQuota],
	}
	for _, role := range []string{"view", "edit", "admin"} { // each aggregates those before it
		t.Run(role, func(t *testing.T) {
			writes := role != "view"
			aggregate(t, admin, role)
			api := boundUser(t, c, admin, role, "team")
			for kind, spec := range specs {
				o := rule(kind, "team", spec)
				o.SetName(role)
				waitListed(t, api, o)
				requireAllowed(t, "create "+kind, api.Create(t.Context(), o.DeepCopy()), writes)

				elsewhere := o.DeepCopy()
				elsewhere.SetNamespace("neighbor")
				requireAllowed(t, "create "+kind+" in another namespace", api.Create(t.Context(), elsewhere), false)
				requireAllowed(t, "list "+kind+" in another namespace", api.List(t.Context(), listOf(o), client.InNamespace("neighbor")), false)

				patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"dropped":1}}`))
				requireAllowed(t, "patch the status of "+kind, api.Status().Patch(t.Context(), o.DeepCopy(), patch), false)
				mode := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"mode":"Audit"}}`))
				requireAllowed(t, "patch "+kind, api.Patch(t.Context(), o.DeepCopy(), mode), writes)
				requireAllowed(t, "delete "+kind, api.Delete(t.Context(), o.DeepCopy()), writes)
				all := []client.DeleteAllOfOption{client.InNamespace("team")}
				requireAllowed(t, "delete all of "+kind, api.DeleteAllOf(t.Context(), o.DeepCopy(), all...), writes)
			}
			// docs/security.md says so: a policy that drops Events gives nobody more power over them.
			requireAllowed(t, "delete Events", api.DeleteAllOf(t.Context(), &corev1.Event{}, client.InNamespace("team")), writes)
			for kind, spec := range clusterSpecs {
				o := rule(kind, "", spec)
				o.SetName(role)
				requireAllowed(t, "create "+kind, api.Create(t.Context(), o.DeepCopy()), false)
				requireAllowed(t, "list "+kind, api.List(t.Context(), listOf(o)), false)
			}
		})
	}
}

// aggregate writes the rules of an aggregated ClusterRole, as kube-controller-manager does, which the test does not run. They are
// those of all ClusterRoles that its selectors match, aggregated ones included.
func aggregate(t *testing.T, admin kubernetes.Interface, name string) {
	t.Helper()
	roles := admin.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if role.AggregationRule == nil {
		t.Fatalf("ClusterRole %s is not aggregated", name)
	}
	parts := map[string][]rbacv1.PolicyRule{}
	for _, selector := range role.AggregationRule.ClusterRoleSelectors {
		list, err := roles.List(t.Context(), metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&selector)})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range list.Items {
			parts[part.Name] = part.Rules
		}
	}
	role.Rules = slices.Concat(slices.Collect(maps.Values(parts))...)
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// boundUser returns a client of a new user that has a ClusterRole in a namespace.
func boundUser(t *testing.T, c *cluster.Cluster, admin kubernetes.Interface, role, namespace string) client.Client {
	t.Helper()
	user := "user-with-" + role
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := admin.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, _, err := c.User(user)
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// waitListed waits until the API server's authorizer knows of the right to list the kind of o.
func waitListed(t *testing.T, api client.Client, o *unstructured.Unstructured) {
	t.Helper()
	eventually(t, "the right to list "+o.GetKind(), func(ctx context.Context) (bool, error) {
		err := api.List(ctx, listOf(o), client.InNamespace(o.GetNamespace()))
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
}

func listOf(o *unstructured.Unstructured) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(o.GroupVersionKind())
	return list
}

// requireAllowed checks that the API server allowed a request, or that it forbade it.
func requireAllowed(t *testing.T, what string, err error, allowed bool) {
	t.Helper()
	if allowed && err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if !allowed && !apierrors.IsForbidden(err) {
		t.Errorf("%s: %v, want it forbidden", what, err)
	}
}
