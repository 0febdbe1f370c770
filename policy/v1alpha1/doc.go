// Package v1alpha1 is the API of policies: EventPolicy, which a namespace has
// for itself, and ClusterEventPolicy, which an admin has for all of them.
//
// The custom resource definitions in manifests/crds are generated from it. What their schema and rules can say is
// checked when a policy is written; the rest, above all whether its expressions compile, is reported in its status.
//
// +groupName=eventquota.io
// +kubebuilder:object:generate=true
package v1alpha1
