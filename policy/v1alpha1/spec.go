package v1alpha1

// CommonSpec is what both kinds of policies say.
type CommonSpec struct {
	// priority orders the policies of one tier or namespace: higher goes first,
	// and of equal ones the lower name. The first that matches governs.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`

	// matchConditions say which Events the policy matches: those for which all
	// of them hold. Without any it matches every Event. An expression that
	// cannot be evaluated, say because it reads a label that the Event does not
	// have, does not hold.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	MatchConditions []MatchCondition `json:"matchConditions,omitempty"`

	// action is what becomes of the Events that the policy governs: Limit
	// (merge repeated and similar ones, limit the rest), Admit (let pass, but
	// for quotas) or Drop (refuse).
	// +optional
	// +kubebuilder:default=Limit
	Action Action `json:"action,omitempty"`

	// mode is Enforce, Audit (decide and count, but let pass what it would
	// refuse: the next policy that enforces governs in its place) or Off (as if
	// the policy were not there). In YAML, Off is a boolean unless it stands in
	// quotes: write mode: "Off".
	// +optional
	// +kubebuilder:default=Enforce
	Mode Mode `json:"mode,omitempty"`

	// auditWarnings makes a policy in mode Audit answer writers with a warning
	// that says what it would have done.
	// +optional
	// +kubebuilder:default=false
	AuditWarnings bool `json:"auditWarnings,omitempty"`

	// aggregation is how repeated and similar Events are merged. An absent
	// field has its default.
	// +optional
	Aggregation *Aggregation `json:"aggregation,omitempty"`

	// spamFilter is a token bucket for each source and object. An absent field
	// has its default.
	// +optional
	SpamFilter *SpamFilter `json:"spamFilter,omitempty"`

	// message bounds the size of messages. An absent field has its default.
	// +optional
	Message *Message `json:"message,omitempty"`
}

// MatchCondition is a condition that an Event must meet, with the semantics
// that matchConditions of admission webhooks have.
type MatchCondition struct {
	// name identifies the condition in the status of the policy. It must be a
	// qualified name and unique among the conditions.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$`
	Name string `json:"name"`

	// expression is a CEL expression that must evaluate to bool. It reads
	// `event`, the Event as core/v1 has it, and `request`, the admission
	// request: name, namespace, operation, userInfo.username, userInfo.groups,
	// dryRun, kind, resource and more. `event.controller` is the source's
	// component, or else the reporting component. A field that does not exist
	// is an error, which the status of the policy shows. Texts, numbers and
	// times that the Event does not have are empty, so that no Event gets
	// around a condition by leaving one out. Functions, libraries and cost
	// limits are those of the API server.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression"`
}

// Action is what becomes of the Events that a policy governs.
//
// +kubebuilder:validation:Enum=Limit;Admit;Drop
type Action string

// Mode is whether a policy is in force.
//
// +kubebuilder:validation:Enum=Enforce;Audit;Off
type Mode string
