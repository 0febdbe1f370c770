package policyfile

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// OfCluster are the policies and namespaces that a cluster has now. One
// that is not valid is an error, though the cluster may still be governed by an
// earlier version of it.
func OfCluster(ctx context.Context, kubeconfig string) (*Policies, error) {
	config, err := apiserver.Config(kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	p, err := New()
	if err != nil {
		return nil, err
	}
	for _, resource := range []schema.GroupVersionResource{
		v1alpha1.ClusterEventPolicies(), v1alpha1.EventPolicies(), corev1.SchemeGroupVersion.WithResource("namespaces"),
	} {
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			document, err := json.Marshal(list.Items[i].Object)
			if err != nil {
				return nil, err
			}
			if err := p.Decode(document); err != nil {
				return nil, fmt.Errorf("%s %s: %w", resource.Resource, list.Items[i].GetName(), err)
			}
		}
	}
	return p, nil
}
