package store

import (
	"slices"
	"strings"
	"time"
)

// record is what the store knows of one stored Event or notice.
//
// Each occurrence is told in one place: total counts those that this Event
// tells, written is the count in the API server's copy, and their difference
// is owed. own is the highest count seen under the Event's own name; total-own
// is what other names contributed (or, when negative, what was told elsewhere
// before the Event was stored).
type record struct {
	id  uint64
	key Key // Write.Exact or Write.Similar; zero for a notice and for one found by name only

	namespace string
	name      string // empty while the API server has no such Event and none took its place
	was       string // the name before that
	reason    string
	series    bool
	aggregate bool

	confirmed bool  // the validating phase or the API server has said that it is stored
	expected  int64 // when the mutating phase let it through
	share     int64 // what its own CREATE added to total, until it is confirmed
	before    int64 // what its name had told before that CREATE
	own       int64
	total     int64
	written   int64
	same      Key // content of the last UPDATE that was admitted

	// What an Event said when this store came to know it, by an UPDATE: total,
	// own, and what was taken to be other names' (legacy.go).
	start, base, adopted int64
	unsure               bool // what written says was not learned by this store

	seen      int64 // when the last occurrence came, by the store's clock
	lastWrite int64 // when it was last written, by the store's clock; 0 for never
	flush     time.Duration
	window    time.Duration

	at       time.Time // when the newest occurrence happened, by the writer's clock
	text     string    // newest message, of an aggregate only
	messages []Tally   // newest distinct messages, of an aggregate only
	notice   *Notice
	first    time.Time // when a notice's first drop happened

	version uint64 // counts changes that the API server is to be told
	stamp   uint64 // counts writes, and CREATEs on their way
	claimed int64  // until when a settler holds it; 0 for nobody
	due     int64
	index   int // in the due queue; -1 when nothing is owed
}

// owing tells whether the API server is to be told something.
func (r *record) owing() bool { return r.index >= 0 }

// repeats tells whether r still takes repeats at now.
func (r *record) repeats(now time.Time, within time.Duration) bool {
	return now.UnixNano()-r.seen <= int64(within)
}

// arrival is when an Event that the mutating phase let through must have
// arrived; 0 once it has.
func (r *record) arrival() int64 {
	if r.confirmed {
		return 0
	}
	return r.expected + int64(confirmWithin)
}

// abandoned tells whether nothing has been heard of r for so long since the
// mutating phase let it through that the API server must have refused it.
func (r *record) abandoned(now time.Time) bool {
	return !r.confirmed && now.UnixNano() > r.arrival()
}

// observe notes one more write about the Event that r stands for.
func (r *record) observe(now time.Time, w Write, t Terms) {
	r.seen = now.UnixNano()
	r.flush, r.window = t.FlushInterval, t.Window
	if w.At.After(r.at) {
		r.at = w.At
	}
}

// tell notes the absolute count of a write under r's own name, and returns how
// many occurrences it tells of that were not told before.
func (r *record) tell(count int64) int64 {
	n := max(0, count-r.own)
	r.own += n
	r.total += n
	return n
}

// wrote notes that r was written with a count.
func (r *record) wrote(now time.Time, count int64) {
	r.written, r.lastWrite = count, now.UnixNano()
	r.unsure = false
	r.stamp++
}

// doubt lets all of r be told anew, as it is gone, if it is not sure that it ever
// was there.
func (r *record) doubt() {
	if r.unsure {
		r.written = 0
	}
}

// takeBack undoes what r's own CREATE told, if that never arrived.
func (r *record) takeBack() {
	if r.confirmed || r.name == "" {
		return
	}
	r.total -= r.share
	r.own, r.share = r.before, 0
}

// hear notes a message of an aggregate, n times more.
func (r *record) hear(text string, n int64, keep int) {
	i := slices.IndexFunc(r.messages, func(m Tally) bool { return m.What == text })
	heard := Tally{Count: n}
	if i >= 0 {
		heard = r.messages[i]
		heard.Count += n
		r.messages = slices.Delete(r.messages, i, i+1)
	} else {
		heard.What = strings.Clone(text) // which may be the beginning of a long one
	}
	r.text = heard.What
	r.messages = slices.Insert(r.messages, 0, heard)
	if len(r.messages) > keep {
		r.messages = slices.Delete(r.messages, keep, len(r.messages))
	}
}

// debt is what is owed at this moment.
func (r *record) debt(group Key) Debt {
	d := Debt{
		Ref:       Ref{Group: group, ID: r.id},
		Namespace: r.namespace,
		Name:      r.name,
		Total:     r.total,
		Merged:    r.total - r.own,
		Series:    r.series,
		First:     r.first,
		Last:      r.at,
		Due:       time.Unix(0, r.due).UTC(),
		Text:      r.text,
		Messages:  slices.Clone(r.messages),
		version:   r.version,
		stamp:     r.stamp,
	}
	if r.notice != nil {
		d.Notice = &Notice{
			Subject: r.notice.Subject,
			Reasons: slices.Clone(r.notice.Reasons),
			Written: r.lastWrite != 0,
		}
	}
	return d
}
