package policy

import (
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request is what conditions know of an admission request, beside its Event.
// Its JSON is that of admission.k8s.io/v1.
type Request struct {
	Kind            metav1.GroupVersionKind     `json:"kind"`
	Resource        metav1.GroupVersionResource `json:"resource"`
	SubResource     string                      `json:"subResource"`
	RequestKind     metav1.GroupVersionKind     `json:"requestKind"`
	RequestResource metav1.GroupVersionResource `json:"requestResource"`
	Name            string                      `json:"name"`
	Namespace       string                      `json:"namespace"`
	Operation       admissionv1.Operation       `json:"operation"`
	UserInfo        UserInfo                    `json:"userInfo"`
	DryRun          bool                        `json:"dryRun"`
}

// UserInfo is who made a request.
type UserInfo struct {
	Username string              `json:"username"`
	UID      string              `json:"uid"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}

// value is r as expressions read it.
func (r *Request) value() map[string]any {
	kind := func(k metav1.GroupVersionKind) map[string]any {
		return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
	}
	resource := func(r metav1.GroupVersionResource) map[string]any {
		return map[string]any{"group": r.Group, "version": r.Version, "resource": r.Resource}
	}
	return map[string]any{
		"kind":               kind(r.Kind),
		"resource":           resource(r.Resource),
		"subResource":        r.SubResource,
		"requestKind":        kind(r.RequestKind),
		"requestResource":    resource(r.RequestResource),
		"requestSubResource": r.SubResource,
		"name":               r.Name,
		"namespace":          r.Namespace,
		"operation":          string(r.Operation),
		"dryRun":             r.DryRun,
		"userInfo": map[string]any{
			"username": r.UserInfo.Username,
			"uid":      r.UserInfo.UID,
			"groups":   r.UserInfo.Groups,
			"extra":    r.UserInfo.Extra,
		},
	}
}
