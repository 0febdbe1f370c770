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

// The kinds.
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

// Resources are the resources of this package, by their kinds.
func Resources() map[string]schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{
		KindEventPolicy:        GroupVersion().WithResource("eventpolicies"),
		KindClusterEventPolicy: GroupVersion().WithResource("clustereventpolicies"),
		KindEventQuota:         GroupVersion().WithResource("eventquotas"),
		KindClusterEventQuota:  GroupVersion().WithResource("clustereventquotas"),
	}
}

// AddToScheme makes the types of this package known to s. It never fails.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &EventPolicy{}, &ClusterEventPolicy{}, &EventQuota{}, &ClusterEventQuota{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
