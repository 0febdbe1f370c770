package policyfile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// ErrNoCRDs is in Invalid if the CRDs are not installed in a cluster.
var ErrNoCRDs = errors.New("the cluster has no policies, because their CRDs are not installed: the built-in default governs")

// ReadCluster reads the current policies, quotas and namespaces of a cluster, or those of one namespace. Rules that are
// invalid or beyond a bound are left out and reported in Invalid.
func ReadCluster(ctx context.Context, config *rest.Config, namespace string) (*Rules, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	r, err := New()
	if err != nil {
		return nil, err
	}
	r.compiler.Strict = false // as in replicas
	objects, err := namespacesOf(ctx, client, namespace)
	if err != nil {
		return nil, err
	}
	resources := v1alpha1.Resources()
	for _, kind := range slices.Sorted(maps.Keys(resources)) {
		var resource dynamic.ResourceInterface = client.Resource(resources[kind])
		if namespaced(kind) {
			resource = client.Resource(resources[kind]).Namespace(namespace)
		}
		list, err := resource.List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			r.Invalid = []error{ErrNoCRDs}
			return r, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resources[kind].Resource, err)
		}
		objects = append(objects, list.Items...)
	}
	for i := range objects {
		if err := invalidErrors(identityOf(&objects[i]).String(), r.add(&objects[i])); err != nil {
			r.Invalid = append(r.Invalid, fmt.Errorf("%w: it is ignored here, but replicas use the last valid version that they have read, if any", err))
		}
	}
	r.applyBounds()
	return r, nil
}

// namespacesOf returns one namespace, or all if name is empty.
func namespacesOf(ctx context.Context, client dynamic.Interface, name string) ([]unstructured.Unstructured, error) {
	namespaces := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	if name != "" {
		one, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("get namespace: %w", err)
		}
		return []unstructured.Unstructured{*one}, nil
	}
	list, err := namespaces.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	return list.Items, nil
}
