// Package v1alpha1 is the API of policies and quotas, those of the cluster and those of a namespace. The definitions in
// manifests/crds are generated from it. What their rules cannot say, as whether an expression compiles, is in the status.
//
// +groupName=eventquota.io
// +kubebuilder:object:generate=true
package v1alpha1
