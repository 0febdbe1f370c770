package tally

import (
	"crypto/rand"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Bounds of what a Counter holds between two flushes. What a Book did not take
// is held beside that, so there may be twice as much.
const (
	maxIDs       = 1 << 14
	maxOffenders = 64      // of one ID
	maxFollowed  = 1 << 14 // offenders of all IDs: 30 MB if all their texts are of the longest
)

// counterShards is how many locks share the IDs. One would do for more Events
// than an API server writes; more keep policies out of each other's way.
const counterShards = 16

// Counter collects what one replica decides until it is added to a Book. It is
// for any number of goroutines.
//
// It counts exactly, of 16384 IDs at the most between two flushes: see Missed.
// Offenders are estimated: a count is never too high, and too low by a 64th of
// the ID's refusals between two flushes. While more than 16384 offenders are
// followed, others are only found by taking places of their own ID's, if it has any.
type Counter struct {
	book    Book
	replica string
	every   time.Duration
	now     func() time.Time

	seed                  maphash.Seed
	shards                [counterShards]counterShard
	ids, followed, missed atomic.Int64

	flushing sync.Mutex // guards what follows
	seq      uint64
	waiting  Batch // what the Book has not taken yet
}

type counterShard struct {
	mu    sync.Mutex
	cells map[ID]*cell
	_     [48]byte // the next lock is in another cache line
}

// cell is what was counted of one ID.
type cell struct {
	counts    Counts
	offenders sketch[uint64] // by a hash with a random seed, which nobody can make collide
	subjects  []Subject      // of the offenders in the same places
}

// Option changes a Counter.
type Option func(*Counter)

// FlushEvery sets the time between two flushes of Run, 2 s by default.
func FlushEvery(d time.Duration) Option { return func(c *Counter) { c.every = d } }

// NewCounter makes a Counter that adds to book, under a name that no other
// Counter has.
func NewCounter(book Book, options ...Option) *Counter {
	c := &Counter{book: book, replica: rand.Text(), every: 2 * time.Second, now: time.Now, seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].cells = map[ID]*cell{}
	}
	for _, o := range options {
		o(c)
	}
	return c
}

// Count counts one decision about an Event of s under the policy id. It takes
// one lock for a moment, and allocates only for an ID or an offender that is
// new since the last flush. It keeps no part of s; nil is nobody.
func (c *Counter) Count(id ID, v store.Verdict, s *Subject) {
	one := CountsOf(v)
	var who Subject
	var hash uint64
	refused := one.Admitted == 0 && s != nil
	if refused {
		who = clipped(*s)
		hash = maphash.Comparable(c.seed, who)
	}
	sh := &c.shards[maphash.Comparable(c.seed, id)%counterShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.cells[id]
	if e == nil {
		if c.ids.Add(1) > maxIDs {
			c.ids.Add(-1)
			c.missed.Add(1)
			return
		}
		e = &cell{}
		sh.cells[id] = e
	}
	e.counts = e.counts.Add(one)
	if refused {
		c.follow(e, hash, who, one)
	}
}

// Missed is how many decisions were not counted, as there were too many IDs.
func (c *Counter) Missed() int64 { return c.missed.Load() }

// follow counts one refusal of an offender.
func (c *Counter) follow(e *cell, hash uint64, who Subject, one Counts) {
	i, lightest := e.offenders.find(hash)
	if i < 0 {
		grow := len(e.offenders) < maxOffenders && c.mayFollow()
		if !grow && len(e.offenders) == 0 {
			return
		}
		if i = e.offenders.take(lightest, hash, grow); grow {
			e.subjects = append(e.subjects, Subject{})
		}
		e.subjects[i] = detached(who)
	}
	e.offenders[i].count(one.Merged, one.Dropped)
}

// mayFollow takes one of the maxFollowed places, if there is one.
func (c *Counter) mayFollow() bool {
	if c.followed.Add(1) <= maxFollowed {
		return true
	}
	c.followed.Add(-1)
	return false
}
