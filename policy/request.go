package policy

import (
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request has the parts of an admission request that conditions can read, besides its Event. Its JSON is that of admission.k8s.io/v1.
type Request struct {
	Kind               metav1.GroupVersionKind     `json:"kind"`
	Resource           metav1.GroupVersionResource `json:"resource"`
	SubResource        string                      `json:"subResource"`
	RequestKind        metav1.GroupVersionKind     `json:"requestKind"`
	RequestResource    metav1.GroupVersionResource `json:"requestResource"`
	RequestSubResource string                      `json:"requestSubResource"`
	Name               string                      `json:"name"`
	Namespace          string                      `json:"namespace"`
	Operation          admissionv1.Operation       `json:"operation"`
	UserInfo           UserInfo                    `json:"userInfo"`
	DryRun             bool                        `json:"dryRun"`
}

// UserInfo is the user who made a request.
type UserInfo struct {
	Username string              `json:"username"`
	UID      string              `json:"uid"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}
