package store

import (
	"math"
	"strings"
	"time"
)

const (
	// maxEmpty is how many empty spam buckets a replica remembers, counting
	// each reason of its own.
	maxEmpty = 1 << 16
	// forever is longer than any bucket stays empty.
	forever = time.Duration(math.MaxInt64)
)

// emptyBuckets are spam buckets that gave no token, until they have one again.
// It is for one goroutine at a time.
//
// Nothing gives tokens back to a spam bucket of one group, so what is refused from
// here is what the bucket would refuse. A bucket that is empty lets through the
// first Events of a reason, so each reason is remembered by itself. Of a bucket
// that groups share only that is kept: how long a reason has no reserve.
type emptyBuckets struct {
	bound int
	known map[emptyBucket]emptiness
}

type emptyBucket struct {
	group, spam Key
	reason      string
}

// emptiness counts only under the settings under which it was found.
type emptiness struct {
	limit   Limit
	reserve int
	until   time.Time // by the clock of the replica
	next    time.Time // when the bucket has a token, by the clock of Redis
}

// find tells whether a CREATE is refused at now, and when there is a token.
func (e *emptyBuckets) find(now time.Time, w *Write, t *Terms) (next time.Time, ok bool) {
	key := emptyBucket{w.Group, t.Spam.Key, w.Reason}
	found, ok := e.known[key]
	if !ok {
		return time.Time{}, false
	}
	if !now.Before(found.until) {
		delete(e.known, key)
		return time.Time{}, false
	}
	return found.next, found.limit == t.Spam.Limit && found.reserve == t.ReservePerReason
}

// spamEmpty tells whether it is known that w finds no spam token at now and no
// reserve, and when there is a token. Of a shared bucket, to which others give
// tokens back, only the leases know whether it is empty.
func (r *refuser) spamEmpty(sh *refuserShard, now time.Time, w *Write, t *Terms) (time.Time, bool) {
	if !t.SharedSpam {
		return sh.empty.find(now, w, t)
	}
	if t.ReservePerReason > 0 {
		if _, closed := sh.empty.find(now, w, t); !closed {
			return time.Time{}, false
		}
	}
	found, next := r.leases.look(now, t.Spam)
	return next, found == isEmpty
}

// keep remembers that CREATEs like w are refused until a moment. At the bound it
// takes the place of one that ends early.
func (e *emptyBuckets) keep(until time.Time, w *Write, t *Terms, next time.Time) {
	key := emptyBucket{w.Group, t.Spam.Key, w.Reason}
	if _, ok := e.known[key]; !ok {
		if len(e.known) >= e.bound {
			e.forgetOne()
		}
		key.reason = strings.Clone(w.Reason) // which may be a part of a whole request
	}
	e.known[key] = emptiness{t.Spam.Limit, t.ReservePerReason, until, next}
}

// forgetOne forgets, of a few, the one that ends first.
func (e *emptyBuckets) forgetOne() {
	var first emptyBucket
	var until time.Time
	n := 0
	for key, found := range e.known {
		if n == 0 || found.until.Before(until) {
			first, until = key, found.until
		}
		if n++; n == sampled {
			break
		}
	}
	delete(e.known, first)
}
