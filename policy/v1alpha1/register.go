package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// GroupName is the API group of policies.
	GroupName = "eventquota.io"
	// Version is the version of the API group in this package.
	Version = "v1alpha1"
	// KindEventPolicy is the kind of a namespace's own policies.
	KindEventPolicy = "EventPolicy"
	// KindClusterEventPolicy is the kind of the cluster's policies.
	KindClusterEventPolicy = "ClusterEventPolicy"
)

// GroupVersion is the group and version of the types in this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: Version}
}

// EventPolicies is the resource of EventPolicy.
func EventPolicies() schema.GroupVersionResource {
	return GroupVersion().WithResource("eventpolicies")
}

// ClusterEventPolicies is the resource of ClusterEventPolicy.
func ClusterEventPolicies() schema.GroupVersionResource {
	return GroupVersion().WithResource("clustereventpolicies")
}

// AddToScheme makes the types of this package known to s. It returns nil: its
// result is there to fit runtime.SchemeBuilder.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(),
		&EventPolicy{}, &EventPolicyList{}, &ClusterEventPolicy{}, &ClusterEventPolicyList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
