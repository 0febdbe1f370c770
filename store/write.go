package store

import "time"

// Write is one Event write.
type Write struct {
	// GroupKey names the Event's user, namespace, source and object: all state but quotas belongs to this group.
	// ObjectKey names the same without the user, to recognize a stored Event.
	GroupKey, ObjectKey Key
	// ExactKey names Events that repeat each other, SimilarKey those that differ only in their message,
	// and MessageKey the message. ExactKey and SimilarKey do not depend on the user.
	ExactKey, SimilarKey, MessageKey Key
	Namespace, Name                  string
	// Identity tells the stored Event from those of other CREATEs; the zero value if only its content can.
	Identity
	// Count is the number of occurrences that the writer has seen under this name so far, from 1. Series reports that the
	// Event keeps it in series.count.
	Count  int64
	Series bool
	// FirstSeen and LastSeen are the times of the first and the newest occurrence, by the writer's clock;
	// zero if it does not say.
	FirstSeen, LastSeen time.Time
	// Stamp is the time of the newest occurrence as the client wrote it, in microseconds of Unix time; 0 if it wrote none. A write that
	// repeats a count under a name with a later stamp is one more occurrence, of a client that reads a count, adds one and writes
	// it. With the same stamp it is the same request again. Stamps of core/v1 have whole seconds.
	Stamp int64
	// Text is the message, within its size limit and without the prefix of a combined Event; Combined
	// reports that it had that prefix.
	Text     string
	Combined bool
	// Reason, Warning, InvolvedObject and Source are for a notice about the write.
	Reason         string
	Warning        bool
	InvolvedObject Object
	Source         Source
	// Workload owns InvolvedObject, in the namespace of the write; the zero value if that is not known.
	Workload Object

	Update *Update // nil for a CREATE
}

// Identity tells which CREATE a stored Event comes from. Its name and content are not enough: anyone may create an Event
// with the name and content of another. The API server then refuses one of the two, and the webhook does not learn which.
type Identity struct {
	// UID is the UID of the Event, once it is known.
	UID string
	// CreateID is the id that the webhook noted on the Event when it was created; 0 for none.
	CreateID uint64
}

// Update has the parts of a Write that only an UPDATE has.
type Update struct {
	// ByRecorder reports that the write changes only the fields that a recorder changes when an Event
	// repeats. Any other UPDATE is never merged, and takes tokens from the quotas.
	ByRecorder bool
	// RevertsMessage reports that a recorder's UPDATE would restore a message that was cut or combined
	// when the Event was stored. Only its count matters, so it is always merged.
	RevertsMessage bool
	// UID is the UID of the stored Event, and Stored is its count.
	UID    string
	Stored Stored
	// ContentKey names the write's content. After a conflict in storage, the API server asks for admission of the
	// same write again; the repeat has the same key.
	ContentKey Key
}

// Stored is the count of a stored Event.
type Stored struct {
	// Count is its count, from 1; 0 if the Event was not read.
	Count int64
	// Merged is the part of Count that came under other names, by the annotation that was written with
	// it. Overwritten reports that a recorder has overwritten the count since then. ByOtherStore reports that another
	// store, which this one has replaced, wrote the annotation.
	Merged                    int64
	Overwritten, ByOtherStore bool
	// Stamp is the Write.Stamp of the Event.
	Stamp int64
}

// Split returns how many occurrences came under the Event's own name and under others. Anyone may have
// written the Event, so merged is limited to 2^40 in both directions.
func (s Stored) Split() (own, merged int64) {
	const most = 1 << 40
	merged = min(max(s.Merged, -most), most)
	if s.Overwritten {
		return s.Count, merged
	}
	return s.Count - merged, merged
}

// Merged returns how many of Total came under other names. It is negative if occurrences under the
// Event's own name are reported elsewhere.
func (o *Occurrences) Merged() int64 { return o.Total - o.Own }

// Adopt raises the counts to those of the stored Event. Counts that this store did not write are added to
// those that it has merged itself. The result is at least one occurrence.
func (o *Occurrences) Adopt(s Stored) {
	if s.Count == 0 {
		return
	}
	own, noted := s.Split()
	merged := o.Merged()
	switch {
	case o.Partial:
		merged += noted
	case s.ByOtherStore && (o.Annotated == 0 || noted > o.Annotated): // otherwise this store has written since
		merged += noted - o.Annotated
	case s.ByOtherStore:
	case noted == 0: // the Event has no annotation, so it says nothing
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

// NoticeNamespace returns the namespace of a notice about o. The API server accepts an Event about a cluster-scoped
// object only in the namespace default.
func (o Object) NoticeNamespace() string {
	if o.Namespace == "" {
		return "default"
	}
	return o.Namespace
}

// String returns o as notices list it: "Kind/name" or "namespace/Kind/name".
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + "/" + o.Name
	}
	return o.Namespace + "/" + o.Kind + "/" + o.Name
}

// IsZero reports whether o names nothing.
func (o Object) IsZero() bool { return o == Object{} }

// Describe returns o as messages name it: "Kind namespace/name" or "Kind name".
func (o Object) Describe() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Limit is the size and the refill rate of a token bucket. A bucket starts full and holds at most
// Burst tokens; one token refills in each Every.
type Limit struct {
	Burst   int           // 0 or less never gives a token
	Every   time.Duration // 0 or less means that tokens never run out
	Reserve int           // tokens that only writes with access to the reserve may take, 0 to Burst
}

// Bucket is a token bucket that a write must get a token from.
type Bucket struct {
	Limit
	// Key names the bucket's state. Name is the name of the bucket, for example "spam filter", and Policy that
	// of its policy or quota, in answers and notices.
	Key          Key
	Name, Policy string
	// LimitID names the bucket's limit if clients choose how many buckets it has; they are counted by namespace, see
	// MaxBuckets. It is empty if policies and quotas bound their number. Spam filters always have it.
	LimitID string
	// NoticeObject is the involved object of a notice about this bucket's drops. Silent turns such notices off.
	NoticeObject Object
	Silent       bool
	// Combined reports drops by reason and type, each in a notice of its own, up to the limit of such notices.
	Combined bool
	// OnFailure applies while the shared store is unavailable.
	OnFailure FailureMode
}

// Limits are the settings for one write.
type Limits struct {
	// Merge turns on merging of identical and similar Events. Without it, a CREATE only takes tokens.
	Merge bool
	// SimilarThreshold is the number of distinct messages, from 1, at which similar Events are combined into one.
	// KeepMessages is how many messages the combined Event keeps.
	SimilarThreshold, KeepMessages int
	// Window is how long Events are similar to the last one before them, and how long a notice
	// and a reserve last.
	Window time.Duration
	// IdenticalWindow is how long after its last occurrence repeats are merged into a stored Event, and how long
	// the names of refused Events are kept.
	IdenticalWindow time.Duration
	// WriteInterval is the minimum time between two writes of a stored Event or notice. It doubles
	// with each write, up to MaxWriteInterval.
	WriteInterval, MaxWriteInterval time.Duration
	// SpamFilter is the bucket of the write's source and object; the zero value is none.
	SpamFilter Bucket
	// ReservePerReason is how many Events of each reason pass an empty spam filter: the first ones of the write's
	// group in each Window.
	ReservePerReason int
	// ChargeMerged makes a merged CREATE take a token from the spam filter too.
	ChargeMerged bool
	// Quotas are buckets that groups share. Each has a different key.
	Quotas []Bucket
}

// FailureMode is the behaviour of a bucket while the shared store is unavailable.
type FailureMode int

// The choices.
const (
	Local    FailureMode = iota // gives tokens according to the state of this replica
	AdmitAll                    // gives every write a token, without counting it
	DenyAll                     // refuses every write, with the verdict Deny
)

// String returns the setting as metrics and logs show it.
func (f FailureMode) String() string {
	return [...]string{Local: "local", AdmitAll: "admit", DenyAll: "deny"}[f]
}
