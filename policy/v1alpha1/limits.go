package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Aggregation is how repeated and similar Events are merged.
type Aggregation struct {
	// maxEvents is how many distinct messages of otherwise equal Events it
	// takes until they are combined into one Event.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxEvents *int32 `json:"maxEvents,omitempty"`

	// window is how long after the last of them similar Events are still
	// combined. More than 0s, at most 24h.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('24h')",message="must be more than 0s and at most 24h"
	Window *metav1.Duration `json:"window,omitempty"`

	// repeatWindow is how long after its last occurrence the same Event is
	// merged into the stored one. Of use up to the API server's --event-ttl.
	// More than 0s, at most 24h.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('24h')",message="must be more than 0s and at most 24h"
	RepeatWindow *metav1.Duration `json:"repeatWindow,omitempty"`

	// flushInterval is the least time between two writes of a stored Event. At
	// least 1s, at most 1h.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be at least 1s and at most 1h"
	FlushInterval *metav1.Duration `json:"flushInterval,omitempty"`

	// keepMessages is how many of its latest distinct messages a combined Event
	// lists. 0 lists none.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	KeepMessages *int32 `json:"keepMessages,omitempty"`
}

// SpamFilter is a token bucket for each source and object, or for what keyBy
// says.
//
// +kubebuilder:validation:XValidation:rule="duration(self.interval).getMilliseconds() * self.burst <= 2592000000 * self.tokens",message="an empty bucket must be full again within 720h: burst * interval / tokens is more"
type SpamFilter struct {
	// burst is how many tokens a full bucket holds.
	// +optional
	// +kubebuilder:default=25
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Burst *int32 `json:"burst,omitempty"`

	// tokens is how many tokens come back in each interval, evenly spread.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Tokens *int32 `json:"tokens,omitempty"`

	// interval is the time in which tokens come back. At least 1ms, at most 24h.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('24h')",message="must be at least 1ms and at most 24h"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// keyBy is what has a bucket of its own: each combination of these parts of
	// an Event. No part may be named twice. Without Source or InvolvedObject many
	// sources or objects share a bucket.
	// +optional
	// +listType=set
	// +kubebuilder:default={Source,InvolvedObject,Type}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	KeyBy []KeyPart `json:"keyBy,omitempty"`

	// reservePerReason is how many Events of each reason a source may report about an
	// object in each aggregation.window although the bucket is empty, so that a
	// rare Event is not starved by a frequent one. 0 admits none; a bucket that
	// many objects share is a ceiling only then.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	ReservePerReason *int32 `json:"reservePerReason,omitempty"`

	// chargeMerged makes merged Events take tokens too, as client-go does.
	// +optional
	// +kubebuilder:default=false
	ChargeMerged bool `json:"chargeMerged,omitempty"`
}

// KeyPart is a part of an Event that token buckets can be keyed by.
//
// +kubebuilder:validation:Enum=Source;InvolvedObject;Type;Reason;Namespace;User
type KeyPart string

// Message bounds the size of messages.
type Message struct {
	// maxBytes is the longest message that is stored whole, in bytes. Longer
	// ones are cut at the end of a character, and say so.
	// +optional
	// +kubebuilder:default=1024
	// +kubebuilder:validation:Minimum=64
	// +kubebuilder:validation:Maximum=1048576
	MaxBytes *int32 `json:"maxBytes,omitempty"`
}

// QuotaBucket is the size and the refill rate of a quota's token buckets.
//
// +kubebuilder:validation:XValidation:rule="duration(self.interval).getMilliseconds() * self.burst <= 2592000000 * self.tokens",message="an empty bucket must be full again within 720h: burst * interval / tokens is more"
type QuotaBucket struct {
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
	// +optional
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('24h')",message="must be at least 1ms and at most 24h"
	Interval *metav1.Duration `json:"interval,omitempty"`
}
