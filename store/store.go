// Package store keeps the state that Event writes share: what is stored and
// merged, how full each token bucket is, and what is still to be told to the
// API server. It knows neither policies nor admission reviews; its callers
// translate. Every method takes the time as an argument and none sleeps.
package store

import (
	"context"
	"errors"
	"time"
)

// ErrFull says that a store is at its bound with nothing it may forget, so it
// cannot keep track of anything more. The caller decides without the store.
var ErrFull = errors.New("store is at its memory bound and all it holds is still unsettled")

// Store decides Event writes. Each call is one atomic step. Implementations
// are safe for concurrent use.
//
// Stores count in whole microseconds, so that all of them agree. The time now,
// from 1970 to 2112, is cut to one. Durations are rounded up to one; less than
// 0 is 0, and more than 2^52 microseconds, 142 years, is as much as that.
// Write.At is cut to one, after 2^53 microseconds of Unix time to the last one
// before, and before 1970 to its first one; zero stays zero.
//
// What is known of a group is forgotten when nothing of it is owed and more
// time has passed since each write than the longest of its Window, its
// RepeatWindow and the time in which its Spam bucket becomes full. A bucket that
// groups share is forgotten once it is full.
type Store interface {
	// Merge decides a CREATE in the mutating phase: Admit, Aggregate, Merge,
	// or, where Terms.ChargeMerged is set, Drop.
	Merge(ctx context.Context, now time.Time, w Write, t Terms) (Decision, error)
	// Take decides a write in the validating phase: Admit, Merge (only an
	// UPDATE) or Drop (only a CREATE).
	Take(ctx context.Context, now time.Time, w Write, t Terms) (Decision, error)
}

// Settling is the side of a store that the settler works on. Implementations
// are safe for concurrent use.
type Settling interface {
	// Due claims up to n debts that have fallen due by now plus ahead, the most
	// overdue first; by an ahead of 142 years or more, all there are. A claimed debt is not handed out again until it is
	// settled or a visibility timeout has passed.
	Due(ctx context.Context, now time.Time, ahead time.Duration, n int) ([]Debt, error)
	// Settle says what became of a claimed debt. What was merged in the
	// meantime stays owed, and an Event that was written in the meantime is
	// told of again.
	Settle(ctx context.Context, now time.Time, d Debt, o Outcome) error
}

// Verdict is what becomes of an Event write.
type Verdict int

const (
	// Admit lets the write through as it is.
	Admit Verdict = iota
	// Aggregate lets a CREATE through as the aggregate of similar Events.
	Aggregate
	// Merge refuses the write; its occurrences are owed to a stored Event.
	Merge
	// Drop refuses the write; its occurrences are owed to a notice.
	Drop
	// Deny refuses the write and keeps nothing of it: the shared store is away
	// and Terms.OnFailure says so.
	Deny
)

// String is the verdict as metrics and logs show it.
func (v Verdict) String() string {
	switch v {
	case Admit:
		return "admit"
	case Aggregate:
		return "aggregate"
	case Merge:
		return "merge"
	case Drop:
		return "drop"
	case Deny:
		return "deny"
	}
	return "unknown"
}

// Decision is the answer to one write.
type Decision struct {
	Verdict Verdict
	// Into is the name of the stored Event that took the occurrences, in the
	// namespace of the write. Set for Merge.
	Into string
	// Total counts the occurrences of that stored Event so far, from 1. Set
	// for Merge.
	Total int64
	// Empty is the bucket that had no token: of several Spam, or else the first
	// of Quotas, but a replica that knows of an empty quota and would have to ask
	// for the rest names that. Set for Drop.
	Empty Bucket
	// Next is when Empty has its next token; zero when it never has. Set for
	// Drop.
	Next time.Time
	// Order says which of two steps of a store came first: each has a higher one
	// than those before. It is the time now in microseconds of Unix time, or more by
	// as little as that takes. 0 where a store does not know.
	Order int64
}

// Bucket is a token bucket that a write must get a token from.
type Bucket struct {
	Limit
	// Key names the bucket's state.
	Key Key
	// Name is how an answer calls the bucket, for example "spam filter", and
	// Policy whose bucket it says it is.
	Name, Policy string
}

// Terms are the settings that govern one write.
type Terms struct {
	// MaxEvents is how many distinct messages of similar Events it takes until
	// they are combined into an aggregate, from 1.
	MaxEvents int
	// Window is how long similar Events stay similar after the last one, and
	// how long one notice and one reserve last.
	Window time.Duration
	// RepeatWindow is how long after its last occurrence a stored Event takes
	// repeats.
	RepeatWindow time.Duration
	// FlushInterval is the least time between two writes of a stored Event.
	FlushInterval time.Duration
	// KeepMessages is how many distinct messages an aggregate keeps.
	KeepMessages int
	// Spam is a bucket of the write's source and object or, when SharedSpam is
	// set, one of many of them. Each has its own tokens, also where both have
	// the same Key.
	Spam       Bucket
	SharedSpam bool
	// ReservePerReason is how many Events of a reason, the first ones of the
	// write's source and object in each Window, are admitted even when Spam is
	// empty. A shared Spam has such a reserve for each group: no number of groups
	// is limited by it unless this is 0.
	ReservePerReason int
	// ChargeMerged makes a merged CREATE take a token from Spam too.
	ChargeMerged bool
	// Quotas are buckets shared by many sources and objects. None of them has the
	// Key of another, or of a shared Spam.
	Quotas []Bucket
	// OnFailure is what a Fallback does when the shared store does not answer.
	OnFailure Failure
	// careful tells that other stores may have let pass what this one does not
	// know, and local that another store inherits all of it.
	careful, local bool
}

// Failure is what becomes of a write that the shared store does not decide.
type Failure int

const (
	// Local decides it by what this replica knows, in a store of its own.
	Local Failure = iota
	// AdmitAll admits it; nothing keeps track of it.
	AdmitAll
	// DenyAll refuses it with the verdict Deny.
	DenyAll
)

// String is the setting as metrics and logs show it.
func (f Failure) String() string {
	switch f {
	case Local:
		return "local"
	case AdmitAll:
		return "admit"
	case DenyAll:
		return "deny"
	}
	return "unknown"
}

// Write is one Event write.
type Write struct {
	// Group names the Event's namespace, source and object. All state but
	// Quotas and a shared Spam lives under it.
	Group Key
	// Exact names Events that repeat each other, Similar those that differ in
	// their message only, and Message the message.
	Exact, Similar, Message Key
	// Namespace and Name are the Event's own.
	Namespace, Name string
	// Count is the number of occurrences that the write tells of, from 1. It
	// is absolute: of all that the writer has seen under this name.
	Count int64
	// Series tells that the Event keeps its count in series.count.
	Series bool
	// At is when the newest occurrence happened, by the writer's clock.
	At time.Time
	// Text is the message, within its size limit and without the prefix of an
	// aggregate; Combined tells that it had that prefix.
	Text     string
	Combined bool
	// Reason and Subject are what a notice about the write would say.
	Reason  string
	Subject Subject
	// Update is set for an UPDATE and nil for a CREATE.
	Update *Update
}

// Subject is what a source tells about: what a notice needs to be found where
// the dropped Events would have been.
type Subject struct {
	APIVersion, Kind, Namespace, Name, UID string
	Component, Host                        string
}

// Update is what an UPDATE adds to a Write.
type Update struct {
	// Recorder tells that the write moves nothing but what a recorder moves
	// when an Event repeats. Any other UPDATE is admitted.
	Recorder bool
	// OldCount is the count in the stored Event, from 1.
	OldCount int64
	// OldMerged is how much other names have contributed, as the settler noted
	// it on the Event; 0 when it has not. It is part of OldCount, unless a
	// recorder has overwritten the count since: then OldOverwritten is set.
	OldMerged      int64
	OldOverwritten bool
	// Same names the write's content. The API server asks for admission of
	// one write again after a conflict in storage; the repeat has the same key.
	Same Key
}
