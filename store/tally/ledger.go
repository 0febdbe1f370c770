package tally

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Bounds of what a Book keeps of one ID. The value in Redis stays below 32 KB.
const (
	slotLength      = 5 * time.Minute
	maxSlots        = 12      // make the last hour, together with what is left of the current one
	maxSlotSketch   = 32      // offenders of one slot
	maxSenders      = 64      // replicas whose last batch is remembered
	maxSubjectBytes = 9 << 10 // of the subjects that are left when some must go: five of the longest
	subjectSlack    = 3 << 10 // how much more there may be until then
	life            = 72 * time.Hour
)

// ledger is all that is known of one ID. Times are microseconds of Unix time.
// The scripts in lua/ change it as its methods do.
type ledger struct {
	since    int64 // when total began
	known    int64 // when the Book heard of the ID
	restored bool
	total    Counts
	slots    []slot     // the oldest first, each not empty
	senders  []sender   // who added last is the last
	subjects []nameable // of offenders in slots, not all, and of others
}

type slot struct {
	index int64 // its beginning, in slotLengths
	Counts
	offenders sketch[offenderID]
}

type sender struct {
	replica senderID
	seq     uint64
}

// senderID names a replica.
type senderID [8]byte

func senderOf(replica string) senderID {
	key := store.KeyOf(replica)
	return senderID(key[:len(senderID{})])
}

// nameable is an offender whose subject is known.
type nameable struct {
	id     offenderID
	packed string
}

// size is what n takes in Redis, in bytes, with what MessagePack adds.
func (n nameable) size() int { return len(n.packed) + 12 }

// clock is the time that a Book takes now for.
func clock(now time.Time) int64 { return min(max(now.UnixMicro(), 1), maxCount) }

// clockSince is the time for the beginning of a total; nothing is later than
// that of one whose beginning is not known.
func clockSince(since time.Time) int64 {
	if since.IsZero() {
		return maxCount
	}
	return clock(since)
}

func newLedger(now int64) *ledger { return &ledger{since: now, known: now} }

func (l *ledger) restore(since int64, total Counts) {
	if l.restored {
		return
	}
	l.restored = true
	l.since = min(l.since, since)
	l.total = l.total.Add(total).limited()
}

// add takes in what a replica adds, unless it has been.
func (l *ledger) add(now int64, from sender, e packedEntry) {
	if !l.isNews(from) {
		return
	}
	l.total = l.total.Add(e.counts).limited()
	s := l.slot(now)
	s.Counts = s.Add(e.counts).limited()
	for _, o := range e.offenders {
		i, lightest := s.offenders.find(o.id)
		if i < 0 {
			i = s.offenders.take(lightest, o.id, len(s.offenders) < maxSlotSketch)
		}
		s.offenders[i].count(o.merged, o.dropped)
		if !slices.ContainsFunc(l.subjects, func(n nameable) bool { return n.id == o.id }) {
			l.subjects = append(l.subjects, nameable{o.id, o.packed})
		}
	}
	l.pruneSubjects()
}

func (l *ledger) isNews(from sender) bool {
	for i, s := range l.senders {
		if s.replica != from.replica {
			continue
		}
		if from.seq <= s.seq {
			return false
		}
		l.senders = slices.Delete(l.senders, i, i+1)
		break
	}
	if len(l.senders) >= maxSenders {
		l.senders = slices.Delete(l.senders, 0, 1)
	}
	l.senders = append(l.senders, from)
	return true
}

// current is the index of the slot for what happens now. While the clock is
// less than an hour behind what it was, that is the newest there is.
func (l *ledger) current(now int64) int64 {
	index := now / slotLength.Microseconds()
	if n := len(l.slots); n > 0 {
		if newest := l.slots[n-1].index; newest < index+maxSlots {
			return max(index, newest)
		}
	}
	return index
}

// slot finds or makes the slot for what happens now, and forgets those that do
// not matter any more.
func (l *ledger) slot(now int64) *slot {
	index := l.current(now)
	l.slots = slices.DeleteFunc(l.slots, func(s slot) bool { return s.index <= index-maxSlots || s.index > index })
	if n := len(l.slots); n == 0 || l.slots[n-1].index != index {
		l.slots = append(l.slots, slot{index: index})
	}
	return &l.slots[len(l.slots)-1]
}
