package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// GroupName is the API group of policies and quotas.
	GroupName = "eventquota.io"
	// Version is the version of the API group in this package.
	Version = "v1alpha1"
)

// The kinds of policies and quotas.
const (
	KindEventPolicy        = "EventPolicy"
	KindClusterEventPolicy = "ClusterEventPolicy"
	KindEventQuota         = "EventQuota"
	KindClusterEventQuota  = "ClusterEventQuota"
)

// GroupVersion is the group and version of the types in this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: Version}
}

// Resources maps each kind of this package to its resource.
func Resources() map[string]schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{
		KindEventPolicy:        GroupVersion().WithResource("eventpolicies"),
		KindClusterEventPolicy: GroupVersion().WithResource("clustereventpolicies"),
		KindEventQuota:         GroupVersion().WithResource("eventquotas"),
		KindClusterEventQuota:  GroupVersion().WithResource("clustereventquotas"),
	}
}

// AddToScheme registers the types of this package with s. It never fails.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &EventPolicy{}, &ClusterEventPolicy{}, &EventQuota{}, &ClusterEventQuota{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
