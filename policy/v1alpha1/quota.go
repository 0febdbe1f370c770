package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EventQuota limits how many of the Events that it matches are stored in its namespace. Every quota that matches an
// Event applies, beside those of the cluster and whatever policy governs: a namespace can tighten the cluster's quotas,
// and not loosen them. Merged Events need no token.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=eventquotas,scope=Namespaced,shortName=evq,categories=event-rules
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Mode,type=string,JSONPath=`.spec.mode`,description="Enforce, Audit or Disabled"
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether it is in force as it says"
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is, or is not"
// +kubebuilder:printcolumn:name=Dropped,type=integer,JSONPath=`.status.total.dropped`,description="Events it refused since its last change"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type EventQuota struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object's metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Events the quota limits, and to how many.
	// +required
	Spec EventQuotaSpec `json:"spec"`
	// status says whether the quota is in force and what it refused. It is written by the webhook.
	Status Status `json:"status,omitempty"`
}

// EventQuotaSpec says which Events of its namespace an EventQuota limits, and to how many.
//
// +kubebuilder:validation:XValidation:rule="self.limits.all(l, !l.interval.matches('^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') || duration(l.interval) > duration('24h') || l.burst > 1000000 || l.tokens < 1 || duration(l.interval).getMilliseconds() * l.burst <= 86400000 * l.tokens || duration(l.interval).getMilliseconds() * l.burst > 2592000000 * l.tokens)",fieldPath=".limits",message="an empty bucket of a namespace's quota must be full again within 24h: burst * interval / tokens is more"
type EventQuotaSpec struct {
	// match says which Events the quota limits.
	Match Match `json:"match,omitempty"`

	Budget `json:",inline"`
}

// ClusterEventQuota limits how many of the Events that it matches are stored, over all namespaces that it selects.
// Every quota that matches an Event applies, but for limits that another one replaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clustereventquotas,scope=Cluster,shortName=cevq,categories=event-rules
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Mode,type=string,JSONPath=`.spec.mode`,description="Enforce, Audit or Disabled"
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether it is in force as it says"
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is, or is not"
// +kubebuilder:printcolumn:name=Dropped,type=integer,JSONPath=`.status.total.dropped`,description="Events it refused since its last change"
// +kubebuilder:printcolumn:name=Precedence,type=integer,priority=1,JSONPath=`.spec.precedence`,description="A limit of a lower one replaces those of its name"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterEventQuota struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object's metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Events the quota limits, and to how many.
	// +required
	Spec ClusterEventQuotaSpec `json:"spec"`
	// status says whether the quota is in force and what it refused. It is written by the webhook.
	Status Status `json:"status,omitempty"`
}

// ClusterEventQuotaSpec says which Events a ClusterEventQuota limits, and to how many.
type ClusterEventQuotaSpec struct {
	// precedence says which quota's limit holds where several that match an Event have one of the same name: that of
	// the lowest precedence, and of equal ones that of the lower name. So some namespaces can have more than the rest.
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Precedence int32 `json:"precedence,omitempty"`

	// match says which Events the quota limits, and in which namespaces.
	Match ClusterMatch `json:"match,omitempty"`

	Budget `json:",inline"`
}

// Budget is how many Events a quota allows.
type Budget struct {
	// limits are token buckets. An Event that is to be stored must get a token from each.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Limits []Limit `json:"limits"`

	Enforcement `json:",inline"`

	// onStoreFailure is what becomes of an Event while the store that replicas share does not answer: Local (each
	// replica limits by what it knows), Admit (the quota does not apply) or Deny (the quota refuses all).
	// +kubebuilder:default=Local
	OnStoreFailure OnStoreFailure `json:"onStoreFailure,omitempty"`
}

// OnStoreFailure says what a quota does while the shared store is unavailable.
//
// +kubebuilder:validation:Enum=Local;Admit;Deny
type OnStoreFailure string

// Limit is a token bucket, or one for each combination of parts of an Event.
//
// +kubebuilder:validation:XValidation:rule="!self.interval.matches('^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') || duration(self.interval) > duration('24h') || self.burst > 1000000 || self.tokens < 1 || duration(self.interval).getMilliseconds() * self.burst <= 2592000000 * self.tokens",message="an empty bucket must be full again within 720h: burst * interval / tokens is more"
type Limit struct {
	// name identifies the limit in answers, metrics and notices.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// per is what has a bucket of its own: each combination of these parts of an Event. Empty is one bucket for all
	// that the quota matches. Controller is a source's component, whatever its host.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Enum=Namespace;User;Source;Controller;InvolvedObject;Kind;Type;Reason
	Per []KeyPart `json:"per,omitempty"`

	// burst is how many tokens a full bucket holds.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Burst int32 `json:"burst"`

	// tokens is how many tokens come back in each interval, evenly spread.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Tokens int32 `json:"tokens"`

	// interval is the time in which tokens come back. At least 1ms, at most 24h.
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') && duration(self) >= duration('1ms') && duration(self) <= duration('24h')",message="must be a time such as 5m, at least 1ms and at most 24h"
	Interval *Duration `json:"interval,omitempty"`

	// warningReservePercent is the part of a full bucket that only Warnings may use, so that Normal Events leave them
	// some. It is not used where per has Type.
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	WarningReservePercent *int32 `json:"warningReservePercent,omitempty"`
}

// KeyPart is a part of an Event that token buckets can be keyed by.
type KeyPart string
