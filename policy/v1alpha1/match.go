package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Match selects Events. An Event matches if it matches every field that is set; an empty match selects every Event.
type Match struct {
	// types are the types of Events: Normal, Warning. An Event may have no type, so Normal selects every Event that is
	// not a Warning. Empty means all.
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Types []EventType `json:"types,omitempty"`

	// reasons are the reasons of Events, such as FailedScheduling. Empty means all.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Reasons []string `json:"reasons,omitempty"`

	// controllers are the components that report Events, such as kubelet: the component of the source or, if there is
	// none, the reporting controller. Empty means all.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Controllers []string `json:"controllers,omitempty"`

	// kinds are the kinds of the involved objects, such as Pod. Empty means all.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Kinds []string `json:"kinds,omitempty"`

	// messages are globs, one of which must match the whole message. `*` matches any text, including none; everything
	// else is literal and case-sensitive. Empty means all. Of a message, the first 4 KiB and the end are read. If a
	// glob needs more than that, it is unknown whether it matches: the policy does not match then, and the quota
	// applies.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Messages []string `json:"messages,omitempty"`
}

// ClusterMatch is a Match that also selects namespaces and has conditions.
type ClusterMatch struct {
	// namespaceSelector selects namespaces by their labels. Empty means all.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	Match `json:",inline"`

	// conditions must all be true. They are evaluated after all other fields of match. A condition is unknown if it
	// cannot be evaluated for an Event, for example because it reads a label that the Event does not have. The policy
	// does not match then, and the quota applies. Use has() to test whether a label exists.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Conditions []MatchCondition `json:"conditions,omitempty"`
}

// EventType is the type of an Event.
//
// +kubebuilder:validation:Enum=Normal;Warning
type EventType string

// MatchCondition is a condition that an Event must meet.
type MatchCondition struct {
	// name identifies the condition in the status. It must be a qualified name and unique among the conditions.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$`
	Name string `json:"name"`

	// expression is a CEL expression that must evaluate to bool. It reads three variables. `event` is the Event in its
	// core/v1 form, with `event.controller` and `event.messageBytes`, the length of the message in bytes. `request` is
	// the admission request: name, namespace, operation, userInfo.username, userInfo.groups, dryRun, kind, resource
	// and more. `namespaceObject` is the namespace: its metadata.name, metadata.labels and metadata.annotations. A
	// field that does not exist is an error, and the status shows it. Texts and numbers that the Event does not have
	// are empty, so no Event evades a condition by omitting one. Some values are unknown: texts of more than 4 KiB,
	// lists and maps of more than 64 entries, and maps with a name of more than 512 bytes. So are labels and
	// annotations of the namespace beyond the first 4 KiB, and annotations of more than 512 bytes. A time is unknown if
	// the Event does not have it or if it is not from 1970 to 9999. Only functions with a known worst-case cost
	// are allowed. The cost is bounded for each expression and for all expressions of the cluster together.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression"`
}

// Enforcement says whether a policy or quota is in force, and how its drops are reported.
type Enforcement struct {
	// mode is Enforce, Audit or Disabled. In mode Audit, a policy or quota decides and counts, but refuses nothing; the
	// next policy in mode Enforce governs instead of an audited one. Disabled is as if the object did not exist.
	// +kubebuilder:default=Enforce
	Mode Mode `json:"mode,omitempty"`

	// notices says how drops are reported: Enabled, Combined or None. Enabled writes one Event of reason EventsDropped
	// for each bucket. Combined writes one Event for each reason and type that was dropped, under that reason and
	// type: at most 16 for each bucket, and EventsDropped reports the rest. If per contains Reason, a bucket is always
	// reported as with Combined, unless notices is None. None writes no Event; drops appear only in metrics and in the
	// status.
	// +kubebuilder:default=Enabled
	Notices Notices `json:"notices,omitempty"`

	// sink says which Events decided by this policy or quota are sent to the webhook's sink, if it has one. All sends
	// merged and dropped Events, Refused sends dropped Events, Warnings sends merged and dropped Events of type
	// Warning, and None sends nothing. If it is absent, the webhook's flag --sink decides.
	Sink Sink `json:"sink,omitempty"`
}

// Mode says whether a policy or quota is in force.
//
// +kubebuilder:validation:Enum=Enforce;Audit;Disabled
type Mode string

// Notices says how drops are reported as Events.
//
// +kubebuilder:validation:Enum=Enabled;Combined;None
type Notices string

const (
	// CombinedNotices reports drops under their own reason and type.
	CombinedNotices Notices = "Combined"
	// NoNotices leaves drops to metrics and the status.
	NoNotices Notices = "None"
)

// Sink says which Events are sent to the sink.
//
// +kubebuilder:validation:Enum=All;Refused;Warnings;None
type Sink string

// Each field of this type has one rule for its range. A pattern here would add a second message for the same mistake.

// Duration is a time such as 10m or 1h30m.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=32
type Duration struct {
	metav1.Duration `json:",inline"`
}
