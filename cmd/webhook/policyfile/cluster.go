package policyfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// OfCluster reads the policies and the labels that a cluster has now, of all namespaces or of one. What is not
// valid is left out: invalid says what, and why.
func OfCluster(ctx context.Context, config *rest.Config, namespace string) (p *Policies, invalid []error, err error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	if p, err = New(); err != nil {
		return nil, nil, err
	}
	namespaces := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	all := []dynamic.ResourceInterface{client.Resource(v1alpha1.ClusterEventPolicies()), client.Resource(v1alpha1.EventPolicies()).Namespace(namespace)}
	var objects []unstructured.Unstructured
	if namespace == "" {
		all = append(all, namespaces)
	} else {
		one, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return nil, nil, fmt.Errorf("get namespace: %w", err)
		}
		objects = append(objects, *one)
	}
	for _, resource := range all {
		list, err := resource.List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return p, []error{errors.New("the cluster has no policies, as their CRDs are not installed: the built-in default governs")}, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("list policies: %w", err)
		}
		objects = append(objects, list.Items...)
	}
	for _, o := range objects {
		document, err := json.Marshal(o.Object)
		if err != nil {
			return nil, nil, err
		}
		if err := p.Decode(document); err != nil {
			invalid = append(invalid, fmt.Errorf("%s %s: %w: it is left out here, while replicas use its last valid version, if they have seen one", o.GetKind(), o.GetName(), err))
		}
	}
	return p, invalid, nil
}
