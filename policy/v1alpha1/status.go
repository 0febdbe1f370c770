package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Types of conditions in the status of policies and quotas.
const (
	// ConditionAccepted is True if the object is valid. While it is False, the last valid generation stays in force,
	// if there is one.
	ConditionAccepted = "Accepted"
	// ConditionReady is True if the observed generation decides. It is also True in mode Audit, and in mode Disabled,
	// where the object decides nothing.
	ConditionReady = "Ready"
	// ConditionShadowed is True if a policy can never govern, or a limit of a quota can never apply, because others
	// that match the same Events take precedence. Otherwise it is absent.
	ConditionShadowed = "Shadowed"
	// ConditionErrors is True if it was unknown for an Event whether the generation in force matches. Otherwise it is
	// absent.
	ConditionErrors = "ConditionErrors"
	// ConditionOverflow is True while an overflow bucket decides for the generation in force, because a namespace has
	// reached its bound of buckets or registers in the store. Otherwise it is absent.
	ConditionOverflow = "Overflow"
)

// Status says whether a policy or quota is in force, and what it did.
type Status struct {
	// observedGeneration is the generation that this status describes.
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Accepted, Ready, Shadowed, ConditionErrors and Overflow. Accepted: the object is valid; if not,
	// the message names the field and the reason, and the line and column in an expression. Ready: the observed
	// generation decides, as its mode says; if not, the message names the generation that does. Shadowed: the object,
	// or one of its limits, can never decide; the message names the object that takes precedence. ConditionErrors: an
	// expression failed on an Event; the message has an example. Overflow: a namespace has reached its bound of token
	// buckets, or of sources and objects with state; the message names the namespace.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// total counts the Events that were decided since this generation was first observed. It is written at most every
	// five minutes. After a leader change it may lack a few minutes' Events. While the generation is not valid, total
	// counts for the generation that stays in force, and is absent if there is none.
	Total *Counts `json:"total,omitempty"`

	// topSources are the sources and objects with the most Events merged or dropped since the last status write, in
	// descending order. If there were none since then, the list of an earlier write stays.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	TopSources []SourceCounts `json:"topSources,omitempty"`
}

// Counts has the Events that a policy governed, by outcome, or that a quota refused. In mode Audit it has the Events
// that would have been merged or dropped. Each request counts once, even if it reports many occurrences.
type Counts struct {
	// since is the time at which counting began.
	Since *metav1.Time `json:"since,omitempty"`
	// matched is the number of Events that it decided.
	// +required
	// +kubebuilder:validation:Minimum=0
	Matched int64 `json:"matched"`
	// admitted is the number of those that were admitted.
	// +required
	// +kubebuilder:validation:Minimum=0
	Admitted int64 `json:"admitted"`
	// merged is the number of those that were merged into a stored Event.
	// +required
	// +kubebuilder:validation:Minimum=0
	Merged int64 `json:"merged"`
	// dropped is the number of those that were dropped.
	// +required
	// +kubebuilder:validation:Minimum=0
	Dropped int64 `json:"dropped"`
}

// SourceCounts counts the merged and dropped Events of one source and object.
type SourceCounts struct {
	// source is the reporter of the Events: the source's component, or the reporting controller, and its host.
	// +required
	// +kubebuilder:validation:MaxLength=4096
	Source string `json:"source"`
	// involvedObject is the object that the Events are about: kind, namespace and name. For pods it is the workload,
	// if that is known.
	// +required
	// +kubebuilder:validation:MaxLength=4096
	InvolvedObject string `json:"involvedObject"`
	// merged is the number of the Events that were merged.
	// +required
	// +kubebuilder:validation:Minimum=0
	Merged int64 `json:"merged"`
	// dropped is the number of the Events that were dropped.
	// +required
	// +kubebuilder:validation:Minimum=0
	Dropped int64 `json:"dropped"`
}
