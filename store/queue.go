package store

import (
	"context"
	"time"
)

// Queue is the settler's view of a store. Implementations are safe for concurrent use. There is one settler at a time,
// except for a moment after a change of leader. Two settlers may then write the same, which does no harm: values are
// absolute, and each write names the resource version that it changes.
type Queue interface {
	// Claim returns the writes of at most n groups that are due by now plus ahead. With an ahead of 142 years or more, all
	// are due. Turns alternate, and within a turn the most overdue comes first. Each namespace has one turn for the counts of
	// its Events, named like it, and another for quota notices that its Events have caused in any namespace. Claim skips
	// groups for which claimed returns true, and changes nothing. Writes of one group are adjacent. With an error it
	// returns the writes that it could read.
	Claim(ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(turn string, group Key) bool) ([]PendingWrite, error)
	// Complete records the outcome of a write. Occurrences merged in the meantime stay pending.
	Complete(ctx context.Context, now time.Time, p PendingWrite, o Outcome) error
	// Pending returns the number of groups with pending writes, due or not.
	Pending(ctx context.Context) (int64, error)
}

// Ref names a stored Event or notice.
type Ref struct {
	Group Key
	ID    uint64
}

// PendingWrite is a change of one stored Event or notice that has not been written to the API server yet.
// Values are absolute, so writing them twice does no harm.
type PendingWrite struct {
	Ref Ref
	// Namespace and Name identify the Event to write. Name is empty if the Event was not found and no other has
	// replaced it: Complete with NotFound then hands the occurrences over to a notice.
	Namespace, Name string
	// UID and ResourceVersion are those of the Event when it was last read or written; empty before. The Event must be read
	// before its first write. UID may be known earlier.
	UID, ResourceVersion string
	// Without a UID, CreateID is Identity.CreateID of the Event that was admitted. If that is 0 too, the Event of that name
	// must match ObjectKey, a Write.ObjectKey, and Key, a Write.ExactKey or Write.SimilarKey; a zero Key matches any.
	CreateID       uint64
	ObjectKey, Key Key
	// Occurrences are the counts to write, and Written is the Event's present count, as far as the store knows.
	Occurrences
	Written      int64
	Series       bool      // the count belongs in series.count
	LastSeen     time.Time // time of the newest occurrence, by the writers' clocks
	Due          time.Time // when the write fell due, by the clock of the store
	FailingSince time.Time // time of the first of the failures in a row; zero if the last attempt did not fail
	// Text is the newest message of a combined Event, without prefix; empty for any other Event.
	// Messages are its latest distinct messages, newest first.
	Text     string
	Messages []Tally
	Notice   *Notice // set if the Event is a notice about drops
	Changes  uint64  // distinguishes later changes from those in this write
}

// Unreported returns how many occurrences are lost if the write is given up.
func (p *PendingWrite) Unreported() int64 { return max(0, p.Total-p.Written) }

// Notice is the content of a notice about drops, except its count.
type Notice struct {
	InvolvedObject Object
	// Bucket and Policy name the bucket that had no tokens and its policy or quota. Without a bucket, Policy
	// drops all; without both, a replica reports occurrences that it could not merge.
	Bucket, Policy string
	First          time.Time // time of the first drop, by the clock of the store
	Warnings       bool      // Warnings are among the drops
	// Reasons and Sources count the dropped occurrences. At most 15 names are listed, which namespaces share, and each is
	// counted from when it was listed; the rest is counted under an empty name.
	Reasons, Sources []Tally
	// Objects are the latest ten objects of the dropped Events, newest first. Namespaces share them.
	Objects []string
	// Reason is the one reason of a combined notice, which reports either Warnings or Normal Events; empty for a notice
	// EventsDropped. A combined notice lists up to three sources, workloads and objects.
	Reason string
	// Workloads count the dropped occurrences as Reasons do, by Object.Describe, if the workload is known.
	Workloads []Tally
	// Workload is set if exactly one workload is known.
	Workload Object
	// ObjectCount is the number of involved objects, and WorkloadCount the number of their workloads that are known. AllPods
	// reports that all of these objects are Pods.
	ObjectCount, WorkloadCount Cardinality
	AllPods                    bool
	// NotInSink is how many of the occurrences are not in the sink.
	NotInSink int64
}

// Cardinality is a number of distinct things, exact or estimated.
type Cardinality struct {
	N         int64
	Estimated bool
}

// ReasonDropped is the reason of notices that are not combined.
const ReasonDropped = "EventsDropped"

// Outcome is the outcome of a pending write.
type Outcome struct {
	Result Result
	// UID and ResourceVersion are those of the Event after the write; set for Written and Read. Stored is its
	// count before, if it was read; set for Written, Rejected and Read.
	UID, ResourceVersion string
	Stored               Stored
}

// Result is the kind of an Outcome.
type Result int

const (
	// Written means that the API server stored the write.
	Written Result = iota
	// NotFound means that the API server has no such Event. Its whole count continues in the next
	// Event of its key, or in a notice if none comes within a window. A missing notice is created again.
	NotFound
	// NameTaken means that the API server has another Event under the name. This is handled like NotFound, and
	// CREATEs under that name leave no state from then on.
	NameTaken
	// Rejected means that the API server will never store the write. The occurrences of an Event go to a notice; a notice
	// is given up.
	Rejected
	// Failed means that the write is tried again later.
	Failed
	// GivenUp means that the write is not tried again, and its occurrences are lost.
	GivenUp
	// Read means that the Event of a Partial write was read and not written. The store adopts Outcome.Stored once, even if others
	// have read or written the Event too, and the write falls due.
	Read
)

// String returns the result as metrics and logs show it.
func (r Result) String() string {
	return [...]string{
		Written: "written", NotFound: "not_found", NameTaken: "name_taken", Rejected: "rejected", Failed: "failed", GivenUp: "given_up", Read: "read",
	}[r]
}
