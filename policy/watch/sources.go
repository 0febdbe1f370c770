// Package watch keeps a policy.Set up to date with the API server.
package watch

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Sources are the informers that a Cache learns from. It runs them: they must
// not run yet, and be nobody else's.
type Sources struct {
	// EventPolicies and ClusterEventPolicies give *unstructured.Unstructured: one
	// object that cannot be decoded must not keep the others from governing, as
	// it would in a typed list.
	EventPolicies        cache.SharedIndexInformer
	ClusterEventPolicies cache.SharedIndexInformer
	// Namespaces gives any type with object metadata.
	Namespaces cache.SharedIndexInformer
}

// NewSources are Sources of a cluster. Of namespaces only the metadata is
// asked for.
func NewSources(policies dynamic.Interface, namespaces metadata.Interface) Sources {
	return Sources{
		EventPolicies: dynamicinformer.NewFilteredDynamicInformer(
			policies, v1alpha1.EventPolicies(), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
		ClusterEventPolicies: dynamicinformer.NewFilteredDynamicInformer(
			policies, v1alpha1.ClusterEventPolicies(), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
		Namespaces: metadatainformer.NewFilteredMetadataInformer(
			namespaces, corev1.SchemeGroupVersion.WithResource("namespaces"), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
	}
}
