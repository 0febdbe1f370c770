package store

import (
	"context"
	"time"
)

// Queue is the side of a store that a settler works on. Implementations are safe for concurrent
// use; there is one settler at a time, but for moments after a change of leader, in which two may
// write the same: values are absolute and each write names the version that it changes.
type Queue interface {
	// Claim returns writes that are due by now plus ahead, the most overdue first and one turn after the other, of at most n
	// groups; with an ahead of 142 years or more all are due. Each namespace has a turn for the counts of its Events, by its name,
	// and another for the notices of quotas that its Events have caused, wherever those are. It
	// passes over groups for which claimed says true, and changes nothing. Writes of one group follow
	// each other. With an error it returns what could be read.
	Claim(ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(turn string, group Key) bool) ([]PendingWrite, error)
	// Complete says what became of a write. What was merged in the meantime stays pending.
	Complete(ctx context.Context, now time.Time, p PendingWrite, o Outcome) error
	// Pending is how many groups have writes pending, due or not.
	Pending(ctx context.Context) (int64, error)
}

// Ref names a stored Event or notice.
type Ref struct {
	Group Key
	ID    uint64
}

// PendingWrite is what the API server has not been sent yet about one stored Event or notice.
// Values are absolute, so writing them twice does no harm.
type PendingWrite struct {
	Ref Ref
	// Namespace and Name are those of the Event to write. Without a name there is none, as no other has
	// followed one that was not found: Complete with NotFound then hands the occurrences over to a notice.
	Namespace, Name string
	// UID and ResourceVersion are those that the Event had when it was last seen, and UID may be known before; empty
	// before it was read, which it must be before its first write.
	UID, ResourceVersion string
	// Without a UID, CreateID is Identity.CreateID of the Event that was admitted. If that is 0, Object and Key are what an
	// Event of that name must be about: Write.ObjectKey, and Write.ExactKey or Write.SimilarKey; a zero Key is any.
	CreateID       uint64
	ObjectKey, Key Key
	// Occurrences are what the Event is to say, and Written is the count that it has, as far as the store knows.
	Occurrences
	Written      int64
	Series       bool      // the count belongs in series.count
	LastSeen     time.Time // when the newest occurrence happened, by the writers' clocks
	Due          time.Time // when the write fell due, by the clock of the store
	FailingSince time.Time // since when the write has failed; zero when it has not
	// Text is the newest message of an aggregate, without prefix; empty for any other Event.
	// Messages are its newest distinct messages, newest first.
	Text     string
	Messages []Tally
	Notice   *Notice // set when the Event is a notice about drops
	Changes  uint64  // distinguishes later changes from those in this write
}

// Unreported is how many occurrences are lost when the write is given up.
func (p *PendingWrite) Unreported() int64 { return max(0, p.Total-p.Written) }

// Notice is what a notice about drops says beside its count.
type Notice struct {
	InvolvedObject Object
	// Bucket and Policy name the bucket that had no tokens and its rule. Without a bucket, Policy
	// drops all; without both, a replica reports what it could not merge.
	Bucket, Policy string
	First          time.Time // when the first of the drops happened, by the clock of the store
	Warnings       bool      // whether Warnings were among them
	// Reasons and Sources count the dropped occurrences. At most 15 are counted by name, each from when it was listed, and
	// namespaces share their places; all else is counted under an empty name.
	Reasons, Sources []Tally
	// Objects are the latest ten objects of the dropped Events, newest first. Namespaces share their places.
	Objects []string
	// Reason is that of all that a combined notice reports, which are all Warnings or none; empty for a notice EventsDropped. A
	// combined notice lists up to three sources, workloads and objects.
	Reason string
	// Workloads count the dropped occurrences as Reasons do, by Object.Describe, where the workload is known.
	Workloads []Tally
	// Workload is the only one that is known; the zero value if there is none, or more.
	Workload Object
	// ObjectCount is how many objects the dropped Events were about, and Belonging how many workloads are known of them, each exact
	// or an estimate. Pods says that all of these objects are Pods.
	ObjectCount, WorkloadCount Cardinality
	AllPods                    bool
	// NotInSink is how many of the occurrences are not in the sink.
	NotInSink int64
}

// Cardinality is how many there are of something, exactly or not.
type Cardinality struct {
	N         int64
	Estimated bool // it is an estimate
}

// ReasonDropped is the reason of notices that are not combined.
const ReasonDropped = "EventsDropped"

// Outcome is what became of a pending write.
type Outcome struct {
	Result Result
	// UID and ResourceVersion are those of the Event after the write; set for Written and Read. Stored is what
	// it said before, if it was read; set for Written, Rejected and Read.
	UID, ResourceVersion string
	Stored               Stored
}

// Result is what became of a pending write.
type Result int

const (
	// Written says that the API server stored what the write said.
	Written Result = iota
	// NotFound says that the API server has no such Event. Its whole count goes on with the next
	// Event of its key, or into a notice if none comes within a window. A notice is created anew.
	NotFound
	// NameTaken says that the API server has another Event under the name. It is not found, and
	// CREATEs under that name leave no state from then on.
	NameTaken
	// Rejected says that the API server will never store it. What an Event was to report goes to a notice; a notice
	// is given up.
	Rejected
	// Failed gives the write back, to be tried again later.
	Failed
	// GivenUp says that nothing more is tried: what the write was to report is lost.
	GivenUp
	// Read says that the Event of a Partial write was read, and nothing written. What Stored says comes to the store once,
	// whoever else has read or written the Event, and the write is due with it.
	Read
)

// String is the result as metrics and logs show it.
func (r Result) String() string {
	return [...]string{
		Written: "written", NotFound: "not_found", NameTaken: "name_taken", Rejected: "rejected", Failed: "failed", GivenUp: "given_up", Read: "read",
	}[r]
}
