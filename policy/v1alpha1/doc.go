// Package v1alpha1 is the API of policies and quotas, for the cluster and for a namespace. The definitions in
// manifests/crds are generated from it. The status reports what a definition cannot check, such as whether an
// expression compiles.
//
// +groupName=eventquota.io
// +kubebuilder:object:generate=true
package v1alpha1
