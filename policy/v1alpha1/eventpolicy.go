package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EventPolicy governs the Events of its namespace: which of them are merged,
// limited or dropped. It governs an Event when no ClusterEventPolicy of tier
// Admin does. The quotas of ClusterEventPolicies apply beside it, whatever it
// says.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=eventpolicies,scope=Namespaced,shortName=evp,categories=eventquota
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Mode,type=string,JSONPath=`.spec.mode`,description="Enforce, Audit or Off"
// +kubebuilder:printcolumn:name=Action,type=string,JSONPath=`.spec.action`,description="Limit, Admit or Drop"
// +kubebuilder:printcolumn:name=Matched,type=integer,JSONPath=`.status.total.matched`,description="Events it decided since its last change"
// +kubebuilder:printcolumn:name=Merged,type=integer,JSONPath=`.status.total.merged`,description="Events merged into a stored one"
// +kubebuilder:printcolumn:name=Dropped,type=integer,JSONPath=`.status.total.dropped`,description="Events dropped"
// +kubebuilder:printcolumn:name=Accepted,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`,description="Whether it is valid"
// +kubebuilder:printcolumn:name=Priority,type=integer,priority=1,JSONPath=`.spec.priority`,description="Higher goes first"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type EventPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Events the policy governs, and how.
	// +required
	Spec EventPolicySpec `json:"spec"`
	// status says whether the policy is in force and what it did. It is
	// written by the webhook, at most every 30 seconds.
	// +optional
	Status PolicyStatus `json:"status,omitempty"`
}

// EventPolicySpec says which Events of its namespace an EventPolicy governs,
// and how.
type EventPolicySpec struct {
	CommonSpec `json:",inline"`

	// quotas are token buckets that many sources and objects share. An Event
	// that the policy governs must get a token from each of them. They apply
	// beside the quotas of ClusterEventPolicies, never in their place. No two
	// may be the same.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(q, self.exists_one(o, o == q))",message="no two quotas may be the same"
	Quotas []Quota `json:"quotas,omitempty"`
}

// Quota is a token bucket of a namespace that many sources and objects share.
type Quota struct {
	// type is what has a bucket of its own: Namespace (one bucket for the
	// namespace), User (one for each user that writes Events), SourceAndObject
	// (one for each source and involvedObject).
	// +required
	Type QuotaType `json:"type"`

	QuotaBucket `json:",inline"`
}

// QuotaType is what has a bucket of its own under a quota of an EventPolicy.
//
// +kubebuilder:validation:Enum=Namespace;User;SourceAndObject
type QuotaType string

// EventPolicyList is a list of EventPolicies.
//
// +kubebuilder:object:root=true
type EventPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the EventPolicies.
	Items []EventPolicy `json:"items"`
}
