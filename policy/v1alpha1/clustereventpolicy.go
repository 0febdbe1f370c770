package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterEventPolicy governs the Events of all namespaces that it selects: of
// tier Admin before the namespaces' own policies, of tier Baseline where these
// have none. Its quotas always apply to the Events that it matches, also when
// another policy governs them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clustereventpolicies,scope=Cluster,shortName=cevp,categories=eventquota
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Tier,type=string,priority=1,JSONPath=`.spec.tier`,description="Admin or Baseline"
// +kubebuilder:printcolumn:name=Mode,type=string,JSONPath=`.spec.mode`,description="Enforce, Audit or Off"
// +kubebuilder:printcolumn:name=Action,type=string,JSONPath=`.spec.action`,description="Limit, Admit or Drop"
// +kubebuilder:printcolumn:name=Matched,type=integer,JSONPath=`.status.total.matched`,description="Events it decided since its last change"
// +kubebuilder:printcolumn:name=Merged,type=integer,JSONPath=`.status.total.merged`,description="Events merged into a stored one"
// +kubebuilder:printcolumn:name=Dropped,type=integer,JSONPath=`.status.total.dropped`,description="Events dropped"
// +kubebuilder:printcolumn:name=Accepted,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`,description="Whether it is valid"
// +kubebuilder:printcolumn:name=Priority,type=integer,priority=1,JSONPath=`.spec.priority`,description="Higher goes first"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterEventPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Events the policy governs, and how.
	// +required
	Spec ClusterEventPolicySpec `json:"spec"`
	// status says whether the policy is in force and what it did. It is
	// written by the webhook, at most every 30 seconds.
	// +optional
	Status PolicyStatus `json:"status,omitempty"`
}

// ClusterEventPolicySpec says which Events a ClusterEventPolicy governs, and
// how.
type ClusterEventPolicySpec struct {
	CommonSpec `json:",inline"`

	// tier is Admin, before the namespaces' own policies, or Baseline, where no
	// policy of the namespace matches.
	// +optional
	// +kubebuilder:default=Baseline
	Tier Tier `json:"tier,omitempty"`

	// namespaceSelector selects namespaces by their labels. Without one, or
	// with an empty one, all namespaces are selected.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// onStoreFailure is what becomes of an Event while the store that replicas
	// share does not answer: Local (each replica limits for itself), Admit or
	// Deny. Where a namespace's own policy governs, that of the first
	// ClusterEventPolicy of tier Baseline that matches holds.
	// +optional
	// +kubebuilder:default=Local
	OnStoreFailure OnStoreFailure `json:"onStoreFailure,omitempty"`

	// quotas are token buckets that many sources and objects share. Every Event
	// that the policy matches must get a token from each of them, also when
	// another policy governs the Event. In mode Audit they are counted and let
	// pass. No two may be the same.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(q, self.exists_one(o, o == q))",message="no two quotas may be the same"
	Quotas []ClusterQuota `json:"quotas,omitempty"`
}

// Tier is when a ClusterEventPolicy is asked.
//
// +kubebuilder:validation:Enum=Admin;Baseline
type Tier string

// The tiers.
const (
	// TierAdmin is asked before the policies of the namespace.
	TierAdmin Tier = "Admin"
	// TierBaseline is asked after the policies of the namespace.
	TierBaseline Tier = "Baseline"
)

// OnStoreFailure says what decides while the shared store is unavailable.
//
// +kubebuilder:validation:Enum=Local;Admit;Deny
type OnStoreFailure string

// ClusterQuota is a token bucket that many sources and objects share.
type ClusterQuota struct {
	// type is what has a bucket of its own: Server (one bucket for all Events
	// that the policy matches), Namespace (one for each namespace), User (one
	// for each user that writes Events), SourceAndObject (one for each source
	// and involvedObject).
	// +required
	Type ClusterQuotaType `json:"type"`

	QuotaBucket `json:",inline"`
}

// ClusterQuotaType is what has a bucket of its own under a quota of a
// ClusterEventPolicy.
//
// +kubebuilder:validation:Enum=Server;Namespace;User;SourceAndObject
type ClusterQuotaType string

// ClusterEventPolicyList is a list of ClusterEventPolicies.
//
// +kubebuilder:object:root=true
type ClusterEventPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ClusterEventPolicies.
	Items []ClusterEventPolicy `json:"items"`
}
