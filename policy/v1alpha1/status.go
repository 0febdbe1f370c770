package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The types of conditions that policies and quotas have.
const (
	// ConditionAccepted is True when the object is valid. While it is False, its
	// last valid generation stays in force, if it had one.
	ConditionAccepted = "Accepted"
	// ConditionReady is True when the observed generation is what decides: also in
	// mode Audit, and in mode Disabled, where it decides nothing.
	ConditionReady = "Ready"
	// ConditionShadowed is True when a policy can never govern, or a limit of a quota can never apply, as others that
	// match the same stand before it. It is absent otherwise.
	ConditionShadowed = "Shadowed"
	// ConditionErrors is True when, for an Event, it was unknown whether the generation in force matches. It is absent
	// otherwise.
	ConditionErrors = "ConditionErrors"
	// ConditionOverflow is True while an overflow bucket of the generation in force decides, as a namespace has as many
	// buckets or registers in the store as it may. It is absent otherwise.
	ConditionOverflow = "Overflow"
)

// Status says whether a policy or quota is in force and what it did.
type Status struct {
	// observedGeneration is the generation that this status is about.
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Accepted (it is valid; if not, the message says which field is wrong and why, and of an expression
	// at which line and column), Ready (the observed generation is what decides, as its mode says; if not, the message
	// says which one does), Shadowed (it, or a limit of it, can never decide; the message names what stands before it),
	// ConditionErrors (an expression failed on an Event; the message has an example) and Overflow (a namespace has as many
	// token buckets, or sources and objects with a state, as it may; the message names it).
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// total counts the Events that it decided since its generation was observed first, written every five minutes at most.
	// It may lack those of the minutes before another replica began to write statuses. While the generation is not valid, it
	// goes on counting those of the generation that stays in force, and is absent where there is none.
	Total *Counts `json:"total,omitempty"`

	// topSources are the sources and objects with most Events merged or dropped since the status was written before, the
	// first with the most; if there were none, those of an earlier write.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	TopSources []SourceCounts `json:"topSources,omitempty"`
}

// Counts are Events that a policy governed, by what became of them, or that a quota refused. In mode Audit they are
// those that would have been merged or dropped. Each request counts once, also one that reports many occurrences.
type Counts struct {
	// since is when counting began.
	Since *metav1.Time `json:"since,omitempty"`
	// matched is how many Events it decided.
	// +required
	// +kubebuilder:validation:Minimum=0
	Matched int64 `json:"matched"`
	// admitted is how many of them were let through.
	// +required
	// +kubebuilder:validation:Minimum=0
	Admitted int64 `json:"admitted"`
	// merged is how many of them were merged into a stored Event.
	// +required
	// +kubebuilder:validation:Minimum=0
	Merged int64 `json:"merged"`
	// dropped is how many of them were dropped.
	// +required
	// +kubebuilder:validation:Minimum=0
	Dropped int64 `json:"dropped"`
}

// SourceCounts is a source and object with many Events.
type SourceCounts struct {
	// source is who reports the Events: the source's component, or the reporting controller, and its host.
	// +required
	// +kubebuilder:validation:MaxLength=4096
	Source string `json:"source"`
	// involvedObject is what the Events are about: kind, namespace and name. Of pods it is the workload, where that is known.
	// +required
	// +kubebuilder:validation:MaxLength=4096
	InvolvedObject string `json:"involvedObject"`
	// merged is how many of the Events were merged.
	// +required
	// +kubebuilder:validation:Minimum=0
	Merged int64 `json:"merged"`
	// dropped is how many of the Events were dropped.
	// +required
	// +kubebuilder:validation:Minimum=0
	Dropped int64 `json:"dropped"`
}
