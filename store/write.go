package store

import "time"

// Write is one Event write.
type Write struct {
	// GroupKey names the Event's user, namespace, source and object: all state but quotas is its. Object names
	// the same without the user, to recognize a stored Event by.
	GroupKey, ObjectKey Key
	// ExactKey names Events that repeat each other, Similar those that differ in their message only,
	// and Message the message. Exact and Similar do not depend on the user.
	ExactKey, SimilarKey, MessageKey Key
	Namespace, Name                  string
	// Identity is what a stored Event has that no other CREATE's has; the zero value if only its content can tell.
	Identity
	// Count is the number of occurrences that the write reports, from 1, of all that the writer has
	// seen under this name. Series says that the Event keeps it in series.count.
	Count  int64
	Series bool
	// FirstSeen and At are when the first and the newest occurrence happened, by the writer's clock;
	// zero where it does not say.
	FirstSeen, LastSeen time.Time
	// Text is the message, within its size limit and without the prefix of an aggregate; Combined
	// says that it had that prefix.
	Text     string
	Combined bool
	// Reason, Warning, About and Source are what a notice about the write would say.
	Reason         string
	Warning        bool
	InvolvedObject Object
	Source         Source
	// Workload is what About belongs to, in the namespace of the write; the zero value where that is not known.
	Workload Object

	Update *Update // nil for a CREATE
}

// Identity says which CREATE a stored Event comes from. A name and a content are no identity: anyone may create an Event
// that says what another's says, under its name. The API server then refuses one of the two, and tells nobody which.
type Identity struct {
	// UID is the uid of the Event, once it is known.
	UID string
	// CreateID is noted on the Event by its CREATE; 0 for one that notes none.
	CreateID uint64
}

// Update is what an UPDATE adds to a Write.
type Update struct {
	// ByRecorder says that the write moves nothing but what a recorder moves when an Event
	// repeats. Any other UPDATE is never merged; it pays the quotas.
	ByRecorder bool
	// RevertsMessage says that a recorder's UPDATE would put back a message that was cut or combined
	// when the Event was stored: only its count is wanted, so it is always merged.
	RevertsMessage bool
	// UID is that of the stored Event, and Stored what it says.
	UID    string
	Stored Stored
	// ContentKey names the write's content. The API server asks for admission of one write again after
	// a conflict in storage; the repeat has the same key.
	ContentKey Key
}

// Stored is what a stored Event says of its count.
type Stored struct {
	// Count is its count, from 1; 0 where the Event was not looked at.
	Count int64
	// Merged is how much of Count came under other names, by the annotation that was written with
	// it. Overwritten says that a recorder has overwritten the count since with its own, and Foreign
	// that another store has written the annotation: one that this one takes the place of.
	Merged                    int64
	Overwritten, ByOtherStore bool
}

// Split are how many occurrences came under the Event's own name and under others. Anyone may have
// written what the Event says, so merged is at most about a thousand billion, either way.
func (s Stored) Split() (own, merged int64) {
	const most = 1 << 40
	merged = min(max(s.Merged, -most), most)
	if s.Overwritten {
		return s.Count, merged
	}
	return s.Count - merged, merged
}

// Merged is how many of Total came under other names; negative when some that came under the
// Event's own name are reported elsewhere.
func (o *Occurrences) Merged() int64 { return o.Total - o.Own }

// Adopt takes in what the stored Event says, where that is more. What this store did not write comes
// to what it has merged itself. No Event has less than one occurrence.
func (o *Occurrences) Adopt(s Stored) {
	if s.Count == 0 {
		return
	}
	own, noted := s.Split()
	merged := o.Merged()
	switch {
	case o.Partial:
		merged += noted
	case s.ByOtherStore && (o.Annotated == 0 || noted > o.Annotated): // or else this store has written since
		merged += noted - o.Annotated
	case s.ByOtherStore:
	case noted == 0: // it is not noted on an Event, so it says nothing
	case own+noted <= o.Total: // nothing new
	case noted < 0 && own <= o.Own: // more is reported elsewhere by now
	case merged == 0:
		merged = noted
	default:
		merged = max(merged, noted)
	}
	if o.Annotated == 0 || noted > o.Annotated {
		o.Annotated = noted
	}
	o.Own, o.Partial = max(o.Own, own), false
	o.Total = max(1, o.Own+merged)
}

// NoticeNamespace is where a notice about o is stored. The API server takes an Event about an object
// of the cluster in no other namespace than default.
func (o Object) NoticeNamespace() string {
	if o.Namespace == "" {
		return "default"
	}
	return o.Namespace
}

// String is o as notices list it: "Kind/name", with its namespace before it where it has one.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + "/" + o.Name
	}
	return o.Namespace + "/" + o.Kind + "/" + o.Name
}

// IsZero reports whether o names nothing.
func (o Object) IsZero() bool { return o == Object{} }

// Describe is o as messages call it: "Kind namespace/name".
func (o Object) Describe() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Limit is the size and the refill rate of a token bucket. A bucket starts full and holds at most
// Burst tokens; one comes back after each Every.
type Limit struct {
	Burst   int           // 0 or less gives no token, ever
	Every   time.Duration // 0 or less means that tokens never run out
	Reserve int           // tokens that a write must leave for writes that may use them all, 0 to Burst
}

// Bucket is a token bucket that a write must get a token from.
type Bucket struct {
	Limit
	// Key names the bucket's state; Name and Policy are the names of the bucket, for example "spam filter", and
	// of its rule in answers and notices.
	Key          Key
	Name, Policy string
	// LimitID names the limit that the bucket is of, where clients choose how many it has; then they are counted by
	// namespace, see MaxBuckets. It is empty where the rules bound their number, but for spam filters, which always have it.
	LimitID string
	// NoticeObject is what a notice about this bucket's drops is about. Silent says that there is none.
	NoticeObject Object
	Silent       bool
	// Combined says that drops are reported by reason and type, each by an Event of its own, as far as there are places.
	Combined bool
	// OnFailure is what the bucket does while the shared store is unavailable.
	OnFailure FailureMode
}

// Limits are the settings that govern one write.
type Limits struct {
	// Merge says that repeats and similar Events are merged. Without it a CREATE only pays.
	Merge bool
	// SimilarThreshold is how many distinct messages of similar Events it takes until they are combined
	// into an aggregate, from 1. KeepMessages is how many of them that keeps.
	SimilarThreshold, KeepMessages int
	// Window is how long similar Events stay similar after the last one, and how long one notice
	// and one reserve last.
	Window time.Duration
	// IdenticalWindow is how long after its last occurrence a stored Event takes repeats, and how long
	// the names of refused Events are kept.
	IdenticalWindow time.Duration
	// WriteInterval is the least time between two writes of a stored Event or notice. It doubles
	// with each write, up to MaxWriteInterval.
	WriteInterval, MaxWriteInterval time.Duration
	// SpamFilter is a bucket of the write's source and object; the zero value is none.
	SpamFilter Bucket
	// ReservePerReason is how many Events of a reason, the first ones of the write's group in each
	// Window, are admitted even when a spam filter is empty.
	ReservePerReason int
	// ChargeMerged makes a merged CREATE take a token from the spam filter too.
	ChargeMerged bool
	// Quotas are buckets that many groups share. Their keys differ.
	Quotas []Bucket
}

// FailureMode is what a bucket does while the shared store is unavailable.
type FailureMode int

// The choices.
const (
	Local    FailureMode = iota // gives tokens by the state of this replica
	AdmitAll                    // gives every write a token, without counting it
	DenyAll                     // refuses every write, with the verdict Deny
)

// String is the setting as metrics and logs show it.
func (f FailureMode) String() string {
	return [...]string{Local: "local", AdmitAll: "admit", DenyAll: "deny"}[f]
}
