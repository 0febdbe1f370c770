// Package policy resolves which policy governs an Event and which quotas limit it. It is pure: it has no
// clients, clocks or loggers, and is independent of admission and the store.
package policy

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

type (
	// Mode is the type of the API.
	Mode = v1alpha1.Mode
	// Tier is the type of the API.
	Tier = v1alpha1.Tier
	// Action is the type of the API.
	Action = v1alpha1.Action
	// KeyPart is the type of the API.
	KeyPart = v1alpha1.KeyPart
	// Sink is the type of the API.
	Sink = v1alpha1.Sink
	// OnStoreFailure is the type of the API.
	OnStoreFailure = v1alpha1.OnStoreFailure
)

// Rule has the parts that policies and quotas have in common. A rule in force is immutable.
type Rule struct {
	Identity Identity
	// Name is the text of Identity.
	Name string
	// Precedence orders rules: the lower comes first, and of equal ones the lower name.
	Precedence int32
	Match      Match
	// Mode is the mode; the zero value is Enforce.
	Mode Mode
	// NoNotices turns off notices about its drops.
	NoNotices bool
	// CombinedNotices reports its drops under their own reasons.
	CombinedNotices bool
	// Sink selects the Events that are sent to the sink, of those that the rule decides; empty for the default.
	Sink Sink
}

// Match selects the Events that match each non-empty list and all conditions.
type Match struct {
	Types, Reasons, Controllers, Kinds []string
	// Messages are globs. One of them must match the message.
	Messages []Glob
	// Namespaces selects namespaces by their labels, for rules of the cluster. Nil selects all.
	Namespaces labels.Selector
	// Conditions are the CEL conditions of a rule of the cluster.
	Conditions []Condition
}

// The modes. A policy in mode Audit decides and counts, but does not govern: the next matching policy in mode Enforce does.
// A quota in mode Audit counts and refuses nothing. A Disabled rule is ignored.
const (
	Enforce  Mode = "Enforce"
	Audit    Mode = "Audit"
	Disabled Mode = "Disabled"
)

// The Events that are sent to the sink: all that are merged or dropped, dropped ones, Warnings, or none.
const (
	SinkAll      Sink = "All"
	SinkRefused  Sink = "Refused"
	SinkWarnings Sink = "Warnings"
	SinkNone     Sink = "None"
)

// Policy is a set of settings for Events. One Policy governs each Event.
type Policy struct {
	Rule

	// Tier is the tier of a policy of the cluster. Policies of namespaces have none.
	Tier Tier
	// Action is the action for Events that the policy governs; the zero value is Limit.
	Action     Action
	Merge      Merge
	SpamFilter SpamFilter
	// MaxMessageBytes is the length at which messages are cut. At least 64.
	MaxMessageBytes int
}

// The tiers of the cluster's policies: before and after the policies of the namespace.
const (
	TierAdmin    Tier = "Admin"
	TierBaseline Tier = "Baseline"
)

// The actions. Limit merges repeated and similar Events; all others need a token of the spam
// filter and of every quota. Drop refuses Events. Exempt admits Events; in a namespace's own
// policy, it still applies the quotas of the cluster.
const (
	Limit  Action = "Limit"
	Drop   Action = "Drop"
	Exempt Action = "Exempt"
)

// Merge has the settings for merging repeated and similar Events.
type Merge struct {
	Enabled bool
	// IdenticalWindow is how long after its last occurrence the same Event is merged into the stored one.
	// More than 0. Values above the API server's --event-ttl have no effect.
	IdenticalWindow time.Duration
	// Threshold is the number of distinct messages at which otherwise equal Events are combined into
	// one Event. At least 1.
	Threshold int
	// SimilarWindow is how long after the last similar Event another one is still combined. More than 0.
	SimilarWindow time.Duration
	// WriteInterval and MaxWriteInterval bound the time between two writes of a stored Event. WriteInterval is
	// more than 0; MaxWriteInterval is 0 for the default of the store.
	WriteInterval, MaxWriteInterval time.Duration
	// KeepMessages is how many of the latest distinct messages a combined Event lists. 0 or more.
	KeepMessages int
}

// SpamFilter is a token bucket for each source and object.
type SpamFilter struct {
	Enabled bool
	Bucket

	// ReservePerReason is how many Events of each reason pass an empty bucket in each Merge.SimilarWindow.
	// 0 or more.
	ReservePerReason int
	// ChargeMerged makes merged Events take tokens too, as client-go does.
	ChargeMerged bool
}

// Bucket is the settings of token buckets.
type Bucket struct {
	// ID identifies the buckets, see identify.
	ID string
	// Per has the parts of an Event that key the buckets.
	Per []KeyPart
	// Burst is the number of tokens in a full bucket. At least 1.
	Burst int
	// Tokens refill evenly in each Interval. At least 1, and Interval is more than 0.
	Tokens   int
	Interval time.Duration
}

// The parts of an Event that can key token buckets. Controller is the component of a source.
const (
	KeyNamespace      KeyPart = "Namespace"
	KeyUser           KeyPart = "User"
	KeySource         KeyPart = "Source"
	KeyController     KeyPart = "Controller"
	KeyInvolvedObject KeyPart = "InvolvedObject"
	KeyKind           KeyPart = "Kind"
	KeyType           KeyPart = "Type"
	KeyReason         KeyPart = "Reason"
)

// Quota limits the number of stored Events.
type Quota struct {
	Rule

	// OnStoreFailure applies while the shared store is unavailable.
	OnStoreFailure OnStoreFailure
	Limits         []QuotaLimit
}

// QuotaLimit is a limit of a quota.
type QuotaLimit struct {
	Bucket

	Name string
	// Reserve is the number of tokens that only Warnings may use. 0 to Burst.
	Reserve int
}

// The choices while the shared store is unavailable: each replica decides locally, the quota does not apply, or it refuses all Events.
const (
	FailureLocal OnStoreFailure = "Local"
	FailureAdmit OnStoreFailure = "Admit"
	FailureDeny  OnStoreFailure = "Deny"
)

// DefaultName is the Name of the default policy.
const DefaultName = "default"

// Default returns the policy that governs if no other does. It has the limits of client-go's EventCorrelator, but
// merged Events take no tokens, and rare reasons have a reserve.
func Default() *Policy {
	p := &Policy{
		Rule:   Rule{Name: DefaultName, Mode: Enforce},
		Action: Limit,
		Merge: Merge{
			Enabled: true, IdenticalWindow: time.Hour, Threshold: 10, SimilarWindow: 10 * time.Minute,
			WriteInterval: 10 * time.Second, KeepMessages: 5,
		},
		SpamFilter: SpamFilter{
			Enabled: true, ReservePerReason: 1,
			Bucket: Bucket{Per: []KeyPart{KeySource, KeyInvolvedObject, KeyType}, Burst: 25, Tokens: 1, Interval: 5 * time.Minute},
		},
		MaxMessageBytes: 1024,
	}
	p.SpamFilter.ID = p.bucketID("spam filter", &p.SpamFilter.Bucket)
	return p
}

// controller returns the component of an Event's source or, without one, its reporting controller.
func controller(e *corev1.Event) string {
	if e.Source.Component == "" {
		return e.ReportingController
	}
	return e.Source.Component
}
