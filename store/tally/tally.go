// Package tally counts what policies decided, over all replicas. A replica
// collects its counts in a Counter, off the way of Events, and adds them to a
// Book, of which Memory is one process's own and Redis one that replicas share.
package tally

import (
	"context"
	"time"

	"github.com/eventquota/eventquota/store"
)

// MaxOffenders is how many offenders a Tally has at most.
const MaxOffenders = 5

// ID names one generation of a policy. A policy that is edited is counted anew.
type ID struct {
	UID        string
	Generation int64
}

// Counts are Event writes by what became of them, from 0.
type Counts struct {
	Admitted int64 `json:"admitted"`
	Merged   int64 `json:"merged"`
	Dropped  int64 `json:"dropped"`
}

// CountsOf is one write of which that became.
func CountsOf(v store.Verdict) Counts {
	switch v {
	case store.Admit, store.Aggregate:
		return Counts{Admitted: 1}
	case store.Merge:
		return Counts{Merged: 1}
	case store.Drop, store.Deny:
	}
	return Counts{Dropped: 1}
}

// Count counts one write more.
func (c *Counts) Count(v store.Verdict) { *c = c.Add(CountsOf(v)) }

// Matched is how many writes were decided.
func (c Counts) Matched() int64 { return c.Admitted + c.Merged + c.Dropped }

// Add is the sum of c and d.
func (c Counts) Add(d Counts) Counts {
	return Counts{c.Admitted + d.Admitted, c.Merged + d.Merged, c.Dropped + d.Dropped}
}

// Offender is a source and object, and how many of its writes were refused.
type Offender struct {
	Subject         Subject
	Merged, Dropped int64
}

// Tally is what a Book knows of one ID.
type Tally struct {
	// Since is when counting of Total began.
	Since time.Time
	Total Counts
	// HourSince is when counting of LastHour and Offenders began: 55 to 60
	// minutes ago, or less when the Book does not know the ID for so long.
	HourSince time.Time
	LastHour  Counts
	// Offenders are those of the last hour, most refused first.
	Offenders []Offender
}

// Entry is what one replica adds for one ID in one go.
type Entry struct {
	ID
	Counts
	Offenders []Offender
}

// Batch is what one replica adds in one go. Each replica has a name of its own,
// which no other process uses again, and numbers its batches from 1. It adds
// a batch again, unchanged, until that is taken, and only then the next.
type Batch struct {
	Replica string
	Seq     uint64
	Entries []Entry // of different IDs
}

// Book keeps tallies. Implementations are safe for concurrent use.
type Book interface {
	// Add adds a batch. What an ID has of it already is not counted twice, so
	// a batch of which it is not known whether it was taken is added again.
	Add(ctx context.Context, now time.Time, b Batch) error
	// Read gives the tallies of ids. An ID of which nothing is known is left out.
	Read(ctx context.Context, now time.Time, ids []ID) (map[ID]Tally, error)
	// Restore says what was counted of an ID before the Book knew of it. The
	// first Restore of an ID is added to what is known, and later ones change
	// nothing. So whoever keeps what Read gives, to restore it one day, calls
	// Restore before the first Read, with a zero total when nothing was kept.
	Restore(ctx context.Context, now time.Time, id ID, since time.Time, total Counts) error
}
