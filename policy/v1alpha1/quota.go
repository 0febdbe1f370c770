package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EventQuota limits how many of the Events that it matches are stored in its namespace. Every quota that matches an
// Event applies, in addition to the quotas of the cluster and whichever policy governs. So a namespace can tighten
// the cluster's quotas, but not loosen them. Merged Events need no token.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=eventquotas,scope=Namespaced,shortName=evq,categories=event-rules
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Mode,type=string,JSONPath=`.spec.mode`,description="Enforce, Audit or Disabled"
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether it is in force as its mode says"
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is or is not in force"
// +kubebuilder:printcolumn:name=Dropped,type=integer,JSONPath=`.status.total.dropped`,description="Events that it refused since its last change"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type EventQuota struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Events the quota limits, and how many are stored.
	// +required
	Spec EventQuotaSpec `json:"spec"`
	// status says whether the quota is in force and what it refused. The webhook writes it.
	Status Status `json:"status,omitempty"`
}

// EventQuotaSpec says which Events of its namespace an EventQuota limits, and how many are stored.
//
// +kubebuilder:validation:XValidation:rule="self.limits.all(l, !l.interval.matches('^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') || duration(l.interval) > duration('24h') || l.burst > 1000000 || l.tokens < 1 || duration(l.interval).getMilliseconds() * l.burst <= 86400000 * l.tokens || duration(l.interval).getMilliseconds() * l.burst > 2592000000 * l.tokens)",fieldPath=".limits",message="an empty bucket of a namespace's quota must refill within 24h: burst * interval / tokens is longer"
type EventQuotaSpec struct {
	// match says which Events the quota limits.
	Match Match `json:"match,omitempty"`

	Budget `json:",inline"`
}

// ClusterEventQuota limits how many of the Events that it matches are stored, over all namespaces that it selects.
// Every quota that matches an Event applies, except for limits that another quota replaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clustereventquotas,scope=Cluster,shortName=cevq,categories=event-rules
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Mode,type=string,JSONPath=`.spec.mode`,description="Enforce, Audit or Disabled"
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether it is in force as its mode says"
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is or is not in force"
// +kubebuilder:printcolumn:name=Dropped,type=integer,JSONPath=`.status.total.dropped`,description="Events that it refused since its last change"
// +kubebuilder:printcolumn:name=Precedence,type=integer,priority=1,JSONPath=`.spec.precedence`,description="A limit replaces those of the same name in quotas of higher precedence"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterEventQuota struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Events the quota limits, and how many are stored.
	// +required
	Spec ClusterEventQuotaSpec `json:"spec"`
	// status says whether the quota is in force and what it refused. The webhook writes it.
	Status Status `json:"status,omitempty"`
}

// ClusterEventQuotaSpec says which Events a ClusterEventQuota limits, and how many are stored.
type ClusterEventQuotaSpec struct {
	// precedence decides which limit holds when several quotas that match an Event have limits of the same name. The
	// quota with the lowest value wins; on a tie, the first name in alphabetical order. Use it to give some namespaces
	// more than the rest.
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Precedence int32 `json:"precedence,omitempty"`

	// match says which Events the quota limits, and in which namespaces.
	Match ClusterMatch `json:"match,omitempty"`

	Budget `json:",inline"`
}

// Budget says how many Events a quota allows.
type Budget struct {
	// limits are token buckets. An Event must get a token from each of them to be stored.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Limits []Limit `json:"limits"`

	Enforcement `json:",inline"`

	// onStoreFailure says what the quota does while the shared store is unavailable: Local, Admit or Deny. With Local,
	// each replica limits with its cached state. With Admit, the quota does not apply. With Deny, it refuses every
	// Event that it matches.
	// +kubebuilder:default=Local
	OnStoreFailure OnStoreFailure `json:"onStoreFailure,omitempty"`
}

// OnStoreFailure says what a quota does while the shared store is unavailable.
//
// +kubebuilder:validation:Enum=Local;Admit;Deny
type OnStoreFailure string

// Limit is a token bucket, or one bucket for each combination of parts of an Event.
//
// +kubebuilder:validation:XValidation:rule="!self.interval.matches('^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') || duration(self.interval) > duration('24h') || self.burst > 1000000 || self.tokens < 1 || duration(self.interval).getMilliseconds() * self.burst <= 2592000000 * self.tokens",message="an empty bucket must refill within 720h: burst * interval / tokens is longer"
type Limit struct {
	// name identifies the limit in answers, metrics and notices.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// per lists the parts of an Event that get a bucket for each of their combinations: Namespace, User, Source,
	// Controller, InvolvedObject, Kind, Type and Reason. Empty means one bucket for all Events that the quota matches. Controller is the component of the source, on any host.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Enum=Namespace;User;Source;Controller;InvolvedObject;Kind;Type;Reason
	Per []KeyPart `json:"per,omitempty"`

	// burst is the number of tokens in a full bucket.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Burst int32 `json:"burst"`

	// tokens is the number of tokens that refill in each interval, evenly spread.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Tokens int32 `json:"tokens"`

	// interval is the time in which that number of tokens refills. At least 1ms, at most 24h.
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') && duration(self) >= duration('1ms') && duration(self) <= duration('24h')",message="must be a time such as 5m, at least 1ms and at most 24h"
	Interval *Duration `json:"interval,omitempty"`

	// warningReservePercent is the share of a full bucket, in percent, that is reserved for Warnings, so that Normal
	// Events cannot use it up. It has no effect if per contains Type.
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	WarningReservePercent *int32 `json:"warningReservePercent,omitempty"`
}

// KeyPart is a part of an Event that keys a token bucket.
type KeyPart string
