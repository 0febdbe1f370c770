// Package policy says which settings govern an Event. It is pure: it knows no
// client, clock or logger, and neither admission nor the store.
package policy

import "time"

// Policy is a set of settings that governs Events. Policies are values; none
// is changed once it governs.
type Policy struct {
	// Name is how answers and metrics call the policy: Identity as text.
	Name string
	// Identity distinguishes the policy from every other one.
	Identity Identity
	// Match says which Events the policy governs.
	Match Match
	// Action is what becomes of the Events that it governs; the zero value is
	// Limit.
	Action Action
	// Mode is whether it is in force; the zero value is Enforce.
	Mode Mode
	// AuditWarnings makes a policy in mode Audit answer writers with a warning.
	AuditWarnings bool

	Aggregation Aggregation
	SpamFilter  SpamFilter
	Message     Message
	// Quotas are token buckets beside the spam filter, each of which an Event
	// must get a token from.
	Quotas []Quota
	// OnStoreFailure is what becomes of an Event while the store that replicas
	// share does not answer.
	OnStoreFailure OnStoreFailure
}

// OnStoreFailure says what decides while the shared store is unavailable.
type OnStoreFailure string

// The choices. Under Local each replica has the policy's limits for itself and
// what it merges and drops is reported later; what Admit lets through is not
// counted, and what Deny refuses is reported by its source alone.
const (
	FailureLocal OnStoreFailure = "Local"
	FailureAdmit OnStoreFailure = "Admit"
	FailureDeny  OnStoreFailure = "Deny"
)

// Aggregation is how repeated and similar Events are merged.
type Aggregation struct {
	// MaxEvents is how many distinct messages of otherwise equal Events it
	// takes until they are combined into one Event. At least 1.
	MaxEvents int
	// Window is how long after the last of them similar Events are still
	// combined. More than 0.
	Window time.Duration
	// RepeatWindow is how long after its last occurrence the same Event is
	// merged into the stored one. More than 0; of use up to the API server's
	// --event-ttl.
	RepeatWindow time.Duration
	// FlushInterval is the least time between two writes of a stored Event.
	// More than 0.
	FlushInterval time.Duration
	// KeepMessages is how many of its latest distinct messages a combined
	// Event lists. 0 or more.
	KeepMessages int
}

// SpamFilter is a token bucket for each source and object.
type SpamFilter struct {
	// ID names the buckets of this filter, see Policy.Identified.
	ID string
	// Burst is how many tokens a full bucket holds. At least 1.
	Burst int
	// Tokens come back in each Interval, evenly. At least 1 in more than 0.
	Tokens   int
	Interval time.Duration
	// KeyBy lists what has a bucket of its own.
	KeyBy []KeyPart
	// ReservePerReason is how many Events of each reason are admitted in each
	// Aggregation.Window although the bucket is empty. 0 or more.
	ReservePerReason int
	// ChargeMerged makes merged Events take tokens too, as client-go does.
	ChargeMerged bool
}

// KeyPart is a part of an Event that token buckets can be keyed by.
type KeyPart string

// The parts that a spam filter can be keyed by.
const (
	KeySource         KeyPart = "Source"
	KeyInvolvedObject KeyPart = "InvolvedObject"
	KeyType           KeyPart = "Type"
	KeyReason         KeyPart = "Reason"
	KeyNamespace      KeyPart = "Namespace"
	KeyUser           KeyPart = "User"
)

// Message bounds the size of messages.
type Message struct {
	// MaxBytes is the longest message that is stored whole. At least 64.
	MaxBytes int
}

// Quota is a token bucket that many sources and objects share.
type Quota struct {
	// ID names the buckets of this quota, see Policy.Identified.
	ID   string
	Type QuotaType
	// Burst is how many tokens a full bucket holds. At least 1.
	Burst int
	// Tokens come back in each Interval, evenly. At least 1 in more than 0.
	Tokens   int
	Interval time.Duration
}

// QuotaType is what has a bucket of its own under a quota.
type QuotaType string

// The types of quota, those of the API server's EventRateLimit plugin.
const (
	QuotaServer          QuotaType = "Server"
	QuotaNamespace       QuotaType = "Namespace"
	QuotaUser            QuotaType = "User"
	QuotaSourceAndObject QuotaType = "SourceAndObject"
)

// Default is the policy that governs where no other does: the limits of
// client-go's EventCorrelator, with merged Events free of charge and a reserve
// for rare reasons.
func Default() Policy {
	p := Policy{
		Name:   "default",
		Action: Limit,
		Mode:   Enforce,
		Aggregation: Aggregation{
			MaxEvents:     10,
			Window:        10 * time.Minute,
			RepeatWindow:  time.Hour,
			FlushInterval: 10 * time.Second,
			KeepMessages:  5,
		},
		SpamFilter: SpamFilter{
			Burst:            25,
			Tokens:           1,
			Interval:         5 * time.Minute,
			KeyBy:            []KeyPart{KeySource, KeyInvolvedObject, KeyType},
			ReservePerReason: 1,
		},
		Message:        Message{MaxBytes: 1024},
		OnStoreFailure: FailureLocal,
	}
	return p.Identified()
}
