package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EventPolicy says how the Events of its namespace are treated: whether they are merged, limited for each source and
// object, or dropped. The first policy that matches an Event governs it. Cluster policies of tier Admin come first,
// then the namespace's own, then cluster policies of tier Baseline. EventQuota and ClusterEventQuota limit how many
// Events are stored in total.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=eventpolicies,scope=Namespaced,shortName=evp,categories=event-rules
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Action,type=string,JSONPath=`.spec.action`,description="Limit, Drop or Exempt"
// +kubebuilder:printcolumn:name=Mode,type=string,JSONPath=`.spec.mode`,description="Enforce, Audit or Disabled"
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether it is in force as its mode says"
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is or is not in force"
// +kubebuilder:printcolumn:name=Matched,type=integer,JSONPath=`.status.total.matched`,description="Events that it decided since its last change"
// +kubebuilder:printcolumn:name=Merged,type=integer,JSONPath=`.status.total.merged`,description="Events that it merged into a stored one"
// +kubebuilder:printcolumn:name=Dropped,type=integer,JSONPath=`.status.total.dropped`,description="Events that it dropped"
// +kubebuilder:printcolumn:name=Precedence,type=integer,priority=1,JSONPath=`.spec.precedence`,description="Lower values are evaluated first"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type EventPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Events the policy governs, and how.
	// +required
	Spec EventPolicySpec `json:"spec"`
	// status says whether the policy is in force and what it did. The webhook writes it.
	Status Status `json:"status,omitempty"`
}

// EventPolicySpec says which Events of its namespace an EventPolicy governs, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spamFilter) || !self.spamFilter.interval.matches('^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') || duration(self.spamFilter.interval) > duration('24h') || self.spamFilter.burst > 1000000 || self.spamFilter.tokens < 1 || duration(self.spamFilter.interval).getMilliseconds() * self.spamFilter.burst <= 86400000 * self.spamFilter.tokens || duration(self.spamFilter.interval).getMilliseconds() * self.spamFilter.burst > 2592000000 * self.spamFilter.tokens",fieldPath=".spamFilter",message="an empty bucket of a namespace's policy must refill within 24h: burst * interval / tokens is longer"
type EventPolicySpec struct {
	// match says which Events the policy governs.
	Match Match `json:"match,omitempty"`

	Treatment `json:",inline"`
}

// ClusterEventPolicy says how Events are treated in all namespaces that it selects. Policies of tier Admin are
// evaluated before the namespaces' own policies, and policies of tier Baseline if none of those matches.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clustereventpolicies,scope=Cluster,shortName=cevp,categories=event-rules
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Tier,type=string,JSONPath=`.spec.tier`,description="Admin or Baseline"
// +kubebuilder:printcolumn:name=Action,type=string,JSONPath=`.spec.action`,description="Limit, Drop or Exempt"
// +kubebuilder:printcolumn:name=Mode,type=string,JSONPath=`.spec.mode`,description="Enforce, Audit or Disabled"
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether it is in force as its mode says"
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is or is not in force"
// +kubebuilder:printcolumn:name=Matched,type=integer,JSONPath=`.status.total.matched`,description="Events that it decided since its last change"
// +kubebuilder:printcolumn:name=Merged,type=integer,JSONPath=`.status.total.merged`,description="Events that it merged into a stored one"
// +kubebuilder:printcolumn:name=Dropped,type=integer,JSONPath=`.status.total.dropped`,description="Events that it dropped"
// +kubebuilder:printcolumn:name=Precedence,type=integer,priority=1,JSONPath=`.spec.precedence`,description="Lower values are evaluated first"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterEventPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Events the policy governs, and how.
	// +required
	Spec ClusterEventPolicySpec `json:"spec"`
	// status says whether the policy is in force and what it did. The webhook writes it.
	Status Status `json:"status,omitempty"`
}

// ClusterEventPolicySpec says which Events a ClusterEventPolicy governs, and how.
type ClusterEventPolicySpec struct {
	// tier is Admin (evaluated before the namespaces' own policies) or Baseline (evaluated if none of them matches).
	// +kubebuilder:default=Baseline
	Tier Tier `json:"tier,omitempty"`

	// match says which Events the policy governs, and in which namespaces.
	Match ClusterMatch `json:"match,omitempty"`

	Treatment `json:",inline"`
}

// Tier says when a ClusterEventPolicy is evaluated.
//
// +kubebuilder:validation:Enum=Admin;Baseline
type Tier string

// Treatment says how a policy handles the Events that it governs.
//
// +kubebuilder:validation:XValidation:rule="self.action == 'Limit' || !has(self.merge)",fieldPath=".merge",message="is allowed only with action Limit: no other action merges"
// +kubebuilder:validation:XValidation:rule="self.action == 'Limit' || !has(self.spamFilter)",fieldPath=".spamFilter",message="is allowed only with action Limit: no other action has a spam filter"
// +kubebuilder:validation:XValidation:rule="self.action == 'Limit' || !has(self.message)",fieldPath=".message",message="is allowed only with action Limit: no other action cuts messages"
// +kubebuilder:validation:XValidation:rule="self.action != 'Exempt' || self.notices == 'Enabled'",fieldPath=".notices",message="Combined and None are allowed only with action Limit or Drop: Exempt drops nothing"
type Treatment struct {
	// precedence orders the policies of one tier or namespace. Lower values are evaluated first; on a tie, names in
	// alphabetical order.
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Precedence int32 `json:"precedence,omitempty"`

	// action is Limit (merge repeated and similar Events, limit the rest), Drop (refuse all, and report them in a
	// notice) or Exempt (neither merge nor limit). Exempt in a ClusterEventPolicy exempts from every quota; in an
	// EventPolicy, from the quotas of its namespace.
	// +kubebuilder:default=Limit
	Action Action `json:"action,omitempty"`

	Enforcement `json:",inline"`

	// merge says how repeated and similar Events are merged. An absent field has its default.
	Merge *Merge `json:"merge,omitempty"`

	// spamFilter is a token bucket for each source and object. An absent field has its default.
	SpamFilter *SpamFilter `json:"spamFilter,omitempty"`

	// message bounds the size of messages. An absent field has its default.
	Message *Message `json:"message,omitempty"`
}

// Action says how a policy handles the Events that it governs.
//
// +kubebuilder:validation:Enum=Limit;Drop;Exempt
type Action string

// Merge says how repeated and similar Events are merged into stored ones.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxWriteInterval) || self.maxWriteInterval.matches('^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') && duration(self.maxWriteInterval) <= duration('1h') && (duration(self.maxWriteInterval) >= duration(self.writeInterval) || duration(self.writeInterval) > duration('1h'))",fieldPath=".maxWriteInterval",message="must be a time such as 5m, at least writeInterval and at most 1h"
type Merge struct {
	// enabled says whether Events are merged.
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// identical says how repeats of the same Event are merged.
	Identical *Identical `json:"identical,omitempty"`

	// similar says how Events that differ only in their messages are combined.
	Similar *Similar `json:"similar,omitempty"`

	// writeInterval is the minimum time between two writes of a stored Event. At least 1s, at most 1h.
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be a time such as 10s, at least 1s and at most 1h"
	WriteInterval *Duration `json:"writeInterval,omitempty"`

	// maxWriteInterval is the maximum wait between two writes of a stored Event. The wait doubles with each write
	// while the Event keeps changing. At least writeInterval, at most 1h. The default is 5m, or 1m without Redis,
	// where pending writes are held in memory.
	MaxWriteInterval *Duration `json:"maxWriteInterval,omitempty"`

	// keepMessages is the number of distinct messages that a combined Event lists; it keeps the latest. 0 lists none.
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	KeepMessages *int32 `json:"keepMessages,omitempty"`
}

// Identical says how repeats of the same Event are merged.
type Identical struct {
	// window is the time during which a repeated Event is merged into the stored one, counted from its last
	// occurrence. Values above the API server's --event-ttl have no effect. More than 0s, at most 24h.
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') && duration(self) > duration('0s') && duration(self) <= duration('24h')",message="must be a time such as 10m, more than 0s and at most 24h"
	Window *Duration `json:"window,omitempty"`
}

// Similar says how Events that differ only in their messages are combined.
type Similar struct {
	// threshold is the number of distinct messages at which such Events are combined into one.
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Threshold *int32 `json:"threshold,omitempty"`

	// window is the time during which further ones are combined, counted from the last such Event. More than 0s, at
	// most 24h.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') && duration(self) > duration('0s') && duration(self) <= duration('24h')",message="must be a time such as 10m, more than 0s and at most 24h"
	Window *Duration `json:"window,omitempty"`
}

// SpamFilter is a token bucket for each source and object.
//
// +kubebuilder:validation:XValidation:rule="!self.interval.matches('^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') || duration(self.interval) > duration('24h') || self.burst > 1000000 || self.tokens < 1 || duration(self.interval).getMilliseconds() * self.burst <= 2592000000 * self.tokens",message="an empty bucket must refill within 720h: burst * interval / tokens is longer"
type SpamFilter struct {
	// enabled says whether sources are limited.
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// per lists the parts of an Event that get a bucket for each of their combinations. It must contain Source and
	// InvolvedObject, and may add Type, Reason or both. For a bucket that many objects share, use a quota.
	// +listType=set
	// +kubebuilder:default={Source,InvolvedObject,Type}
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum=Source;InvolvedObject;Type;Reason
	// +kubebuilder:validation:XValidation:rule="'Source' in self && 'InvolvedObject' in self",message="must have Source and InvolvedObject: a bucket that many of them share is a limit of an EventQuota or ClusterEventQuota"
	Per []KeyPart `json:"per,omitempty"`

	// burst is the number of tokens in a full bucket.
	// +kubebuilder:default=25
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Burst *int32 `json:"burst,omitempty"`

	// tokens is the number of tokens that refill in each interval, evenly spread.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Tokens *int32 `json:"tokens,omitempty"`

	// interval is the time in which that number of tokens refills. At least 1ms, at most 24h.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,3})?(h|m|s|ms)){1,4}$') && duration(self) >= duration('1ms') && duration(self) <= duration('24h')",message="must be a time such as 5m, at least 1ms and at most 24h"
	Interval *Duration `json:"interval,omitempty"`

	// reservePerReason is the number of Events of each reason, for one source and object, that are admitted without a
	// token in each merge.similar.window. It is the total for the window, however often the bucket is empty. It keeps
	// frequent reasons from starving rare ones. 0 admits none.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	ReservePerReason *int32 `json:"reservePerReason,omitempty"`

	// chargeMerged makes merged Events take tokens too, as in client-go.
	// +kubebuilder:default=false
	ChargeMerged bool `json:"chargeMerged,omitempty"`
}

// Message bounds the size of messages.
type Message struct {
	// maxBytes is the length in bytes of the longest message that is stored whole. A longer one is cut between
	// characters, and its text says so.
	// +kubebuilder:default=1024
	// +kubebuilder:validation:Minimum=64
	// +kubebuilder:validation:Maximum=1048576
	MaxBytes *int32 `json:"maxBytes,omitempty"`
}
