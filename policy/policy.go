// Package policy decides which settings govern an Event and which quotas limit it. It is pure: without
// clients, clocks or loggers, and independent of admission and the store.
package policy

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

type (
	// Mode is that of the API.
	Mode = v1alpha1.Mode
	// Tier is that of the API.
	Tier = v1alpha1.Tier
	// Action is that of the API.
	Action = v1alpha1.Action
	// KeyPart is that of the API.
	KeyPart = v1alpha1.KeyPart
	// Sink is that of the API.
	Sink = v1alpha1.Sink
	// OnStoreFailure is that of the API.
	OnStoreFailure = v1alpha1.OnStoreFailure
)

// Rule is what policies and quotas have in common. A rule in force is not changed.
type Rule struct {
	Identity Identity
	// Name is Identity as text.
	Name string
	// Precedence orders rules: lower goes first, and of equal ones the lower name.
	Precedence int32
	Match      Match
	// Mode is whether it is in force; the zero value is Enforce.
	Mode Mode
	// NoNotices says that no notice reports what it drops.
	NoNotices bool
	// CombinedNotices says that what it drops is reported under its own reason.
	CombinedNotices bool
	// Sink is which of the Events that it decides are sent to the sink; empty for the default.
	Sink Sink
}

// Match selects the Events that fit each non-empty list and meet all conditions.
type Match struct {
	Types, Reasons, Controllers, Kinds []string
	// Messages are globs, of which one must match the message.
	Messages []Glob
	// Namespaces selects the namespaces of a cluster's rule by their labels. Nil selects all.
	Namespaces labels.Selector
	// Conditions are of a cluster's rule.
	Conditions []Condition
}

// The modes. A policy in mode Audit decides and counts, but does not govern: the next one that enforces does.
// A quota in mode Audit counts, and refuses nothing. A Disabled rule is ignored.
const (
	Enforce  Mode = "Enforce"
	Audit    Mode = "Audit"
	Disabled Mode = "Disabled"
)

// Which Events are sent to the sink: all that are merged or dropped, those that are dropped, all that are Warnings, or none.
const (
	SinkAll      Sink = "All"
	SinkRefused  Sink = "Refused"
	SinkWarnings Sink = "Warnings"
	SinkNone     Sink = "None"
)

// Policy is a set of settings that governs Events.
type Policy struct {
	Rule

	// Tier is when a policy of the cluster is asked; one of a namespace has none.
	Tier Tier
	// Action is what becomes of the Events that it governs; the zero value is Limit.
	Action     Action
	Merge      Merge
	SpamFilter SpamFilter
	// MaxMessageBytes is the longest message that is stored whole. At least 64.
	MaxMessageBytes int
}

// When a policy of the cluster is asked: before and after the policies of the namespace.
const (
	TierAdmin    Tier = "Admin"
	TierBaseline Tier = "Baseline"
)

// What becomes of the Events that a policy governs. Under Limit repeated and similar Events are merged, and the rest must get a token from the spam
// filter and from every quota; Drop refuses them; under Exempt a cluster's policy lets them through, and a
// namespace's own asks the quotas of the cluster only.
const (
	Limit  Action = "Limit"
	Drop   Action = "Drop"
	Exempt Action = "Exempt"
)

// Merge is how repeated and similar Events are merged.
type Merge struct {
	Enabled bool
	// IdenticalWindow is how long after its last occurrence the same Event is merged into the stored one.
	// More than 0; of use up to the API server's --event-ttl.
	IdenticalWindow time.Duration
	// Threshold is how many distinct messages of otherwise equal Events it takes until they are combined into
	// one Event. At least 1.
	Threshold int
	// SimilarWindow is how long after the last of them similar Events are still combined. More than 0.
	SimilarWindow time.Duration
	// WriteInterval and MaxWriteInterval bound the time between two writes of a stored Event. WriteInterval is
	// more than 0; MaxWriteInterval is 0 for the default of the store.
	WriteInterval, MaxWriteInterval time.Duration
	// KeepMessages is how many of its latest distinct messages a combined Event lists. 0 or more.
	KeepMessages int
}

// SpamFilter is a token bucket for each source and object.
type SpamFilter struct {
	Enabled bool
	Bucket

	// ReservePerReason is how many Events of each reason are admitted in each Merge.SimilarWindow although the
	// bucket is empty. 0 or more.
	ReservePerReason int
	// ChargeMerged makes merged Events take tokens too, as client-go does.
	ChargeMerged bool
}

// Bucket is the settings of token buckets.
type Bucket struct {
	// ID names the buckets, see identify.
	ID string
	// Per are the parts of an Event by which buckets are keyed.
	Per []KeyPart
	// Burst is how many tokens a full bucket holds. At least 1.
	Burst int
	// Tokens come back in each Interval, evenly. At least 1 in more than 0.
	Tokens   int
	Interval time.Duration
}

// The parts of an Event by which token buckets can be keyed. Controller is the component of a Source.
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

// Bounded reports whether rules and namespaces bound how many buckets there are: Events have two types at most, and any
// number of all else.
func (b *Bucket) Bounded() bool {
	return !slices.ContainsFunc(b.Per, func(part KeyPart) bool { return part != KeyNamespace && part != KeyType })
}

// Quota limits how many Events are stored.
type Quota struct {
	Rule

	// OnStoreFailure is what it does while the shared store is unavailable.
	OnStoreFailure OnStoreFailure
	Limits         []QuotaLimit
}

// QuotaLimit is a limit of a quota.
type QuotaLimit struct {
	Bucket

	Name string
	// Reserve is how many tokens of a full bucket only Warnings may use. 0 to Burst.
	Reserve int
}

// What a quota does while the shared store is unavailable: each replica limits by what it knows; the quota does not apply; the quota refuses all.
const (
	FailureLocal OnStoreFailure = "Local"
	FailureAdmit OnStoreFailure = "Admit"
	FailureDeny  OnStoreFailure = "Deny"
)

// DefaultName is the Name of the default policy.
const DefaultName = "default"

// Default is the policy that governs where no other does: the limits of client-go's EventCorrelator, with
// merged Events free of charge and a reserve for rare reasons.
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

// controller is the component that reports an Event: its source's or, where it has none, the reporting controller.
func controller(e *corev1.Event) string {
	if e.Source.Component == "" {
		return e.ReportingController
	}
	return e.Source.Component
}
