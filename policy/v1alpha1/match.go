package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Match says which Events are meant: those that fit each field that is set. An empty match fits every Event.
type Match struct {
	// types are the types of Events: Normal, Warning. Normal is whatever is not
	// Warning: an Event may have no type. Empty means all.
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Types []EventType `json:"types,omitempty"`

	// reasons are the reasons of Events, such as FailedScheduling. Empty means all.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Reasons []string `json:"reasons,omitempty"`

	// controllers are the components that report Events, such as kubelet: the component of their source or, where they
	// have none, the reporting controller. Empty means all.
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

	// messages are globs, of which one must match the whole message: `*` matches any text, and none. All else is literal,
	// and case counts. Empty means all. Of a message, the first 4 KiB and the end are read. A glob that needs more is
	// unknown for that message: the policy does not match then, and the quota applies.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Messages []string `json:"messages,omitempty"`
}

// ClusterMatch is a Match over namespaces, with conditions.
type ClusterMatch struct {
	// namespaceSelector selects namespaces by their labels. Empty means all.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	Match `json:",inline"`

	// conditions must all hold. They are evaluated after all other fields of match. A condition that cannot be evaluated
	// for an Event is unknown, say because it reads a label that the Event does not have: the policy does not match then,
	// and the quota applies. has() tells whether a label is there.
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

	// expression is a CEL expression that must evaluate to bool. It reads `event`, the Event as core/v1 has it, with
	// `event.controller`, and `event.messageBytes`, the length of the message in bytes; `request`, the admission request:
	// name, namespace, operation, userInfo.username, userInfo.groups, dryRun, kind, resource and more; and
	// `namespaceObject`, the namespace: its metadata.name, metadata.labels and metadata.annotations. A field that does not
	// exist is an error, which the status shows. Texts and numbers that the Event does not have are empty, so that no Event
	// gets around a condition by leaving one out. Unknown are: a text of more than 4 KiB, a list or map of more than 64
	// entries, a map with a name of more than 512 bytes, a label of the namespace beyond the first 4 KiB, an annotation of it
	// of more than 512 bytes or beyond the first 4 KiB, and a time that the Event does not have or that is not from 1970 to
	// 9999. Only functions whose worst cost is known are allowed, and that cost is bounded for each expression and for all of
	// the cluster together.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression"`
}

// Enforcement is whether a policy or quota is in force, and whether what is dropped is reported.
type Enforcement struct {
	// mode is Enforce, Audit (decide and count, but refuse nothing; of policies the next one that enforces governs) or
	// Disabled (as if it were not there).
	// +kubebuilder:default=Enforce
	Mode Mode `json:"mode,omitempty"`

	// notices is Enabled, Combined or None. Combined reports drops under their own reason and type, in one Event for each, of
	// at most 16 a bucket; all others in one Event of reason EventsDropped, as Enabled does. A bucket whose per has Reason is
	// always reported so, unless notices is None: then drops are to be seen in metrics and in the status only.
	// +kubebuilder:default=Enabled
	Notices Notices `json:"notices,omitempty"`

	// sink is which of the Events that this rule decides are sent to the sink of the webhook, if it has one: All (what is
	// merged or dropped), Refused (what is dropped), Warnings (as All, but only those of type Warning) or None. Without it the
	// webhook's flag --sink says so.
	Sink Sink `json:"sink,omitempty"`
}

// Mode is whether a policy or quota is in force.
//
// +kubebuilder:validation:Enum=Enforce;Audit;Disabled
type Mode string

// Notices is whether drops are reported as Events.
//
// +kubebuilder:validation:Enum=Enabled;Combined;None
type Notices string

const (
	// CombinedNotices reports drops under their own reason and type.
	CombinedNotices Notices = "Combined"
	// NoNotices leaves drops to metrics and the status.
	NoNotices Notices = "None"
)

// Sink is which Events are sent to the sink.
//
// +kubebuilder:validation:Enum=All;Refused;Warnings;None
type Sink string

// What a Duration may be is said by one rule of each field: a pattern would give a second message.

// Duration is a time such as 10m or 1h30m.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=32
type Duration struct {
	metav1.Duration `json:",inline"`
}
