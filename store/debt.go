package store

import "time"

// Debt is what the API server has not been told yet about one stored Event or
// notice. Values are absolute, so telling them twice does no harm.
type Debt struct {
	// Ref names what is owed to.
	Ref Ref
	// Namespace and Name are those of the Event to write.
	Namespace, Name string
	// Total is the count to write, from 1, and Merged how much of it other
	// names than the Event's own contributed. Merged is negative when some of
	// what the Event's own name told is told elsewhere.
	Total, Merged int64
	// Series tells that the count belongs in series.count.
	Series bool
	// First and Last are when the first and the newest occurrence happened,
	// by the writers' clocks. First is set for a notice only.
	First, Last time.Time
	// Due is when the debt fell due by the clock of the store, or when the last
	// claim of it ran out.
	Due time.Time
	// Text is the newest message of an aggregate, without prefix. Empty for
	// an Event that is not an aggregate.
	Text string
	// Messages are an aggregate's newest distinct messages, newest first.
	Messages []Tally
	// Notice is set when the Event is a notice about drops.
	Notice *Notice
	// version tells later changes from those in this debt, and stamp whether
	// the Event was written, or created anew, since.
	version, stamp uint64
}

// Ref names a debt. Its zero value names nothing.
type Ref struct {
	Group Key
	ID    uint64
}

// Tally counts occurrences of one thing.
type Tally struct {
	What  string
	Count int64
}

// Notice is what a notice about drops says beside its count.
type Notice struct {
	Subject Subject
	// Reasons count the dropped occurrences by the Events' reason, in the
	// order in which they were first dropped. At most 16 are told apart; the
	// rest is counted under the empty reason.
	Reasons []Tally
	// Written tells that the notice has been stored before.
	Written bool
}

// Outcome is what became of a debt.
type Outcome int

const (
	// Told says that the API server stored what the debt said.
	Told Outcome = iota
	// Gone says that the API server has no such Event. Its whole count goes
	// with the next Event in its place, and what was never written goes to a
	// notice if none follows in a window. A notice that is gone is created
	// anew.
	Gone
	// Refused says that the API server will never store it, so that trying
	// again is of no use. What was owed to an Event goes to a notice; a notice
	// is let be until there is more to tell.
	Refused
)

// String is the outcome as metrics and logs show it.
func (o Outcome) String() string {
	switch o {
	case Told:
		return "told"
	case Gone:
		return "gone"
	case Refused:
		return "refused"
	}
	return "unknown"
}
