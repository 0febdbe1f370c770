package store

import (
	"context"
	"time"
)

// Legacy is what a store has told and owes of one source and object, to be
// taken over by another store, the heir. Counts are what was told since the
// store came to know a name or an Event, so that the heir can add them to its
// own; times are nanoseconds of Unix time by the store's clock, 0 for never.
type Legacy struct {
	// ID is random, so that a Legacy is not taken in twice.
	ID        Key
	Group     Key
	Namespace string
	Subject   Subject
	Events    []LegacyEvent
	Names     []LegacyName
}

// LegacyEvent is a stored Event or a notice, or one that was to be stored.
type LegacyEvent struct {
	// Name is the Event's own, Key what Events it stands for; zero for a notice
	// and for one that is known by its name only.
	Name string
	Key  Key
	// Since counts the occurrences that the Event tells since the store came to
	// know it. It is less than 0 when the Event told too much before.
	Since int64
	// Own is the highest count that came under Name, and Base how much of it was
	// told before the store knew Name.
	Own, Base int64
	// Adopted is what the store took to be other names' when it came to know
	// the Event; less than 0 for what was told elsewhere. It is no part of Since.
	Adopted int64
	// Stored tells that the API server had the Event when the store last heard of
	// it, Written the count in its copy, and LastWrite when it was written or the
	// store came to know it.
	Stored    bool
	Written   int64
	LastWrite int64
	// Seen is when its last occurrence came.
	Seen          int64
	Flush, Window time.Duration

	Reason            string
	Series, Aggregate bool
	// At, Text and Messages are those of Debt.
	At       time.Time
	Text     string
	Messages []Tally
	// Reasons and First are those of a notice; First is zero for an Event.
	Reasons []Tally
	First   time.Time
}

// LegacyName is a name under which something was refused.
type LegacyName struct {
	Name Key
	// Count is the highest count, and Base how much of it was told before the
	// store knew Name.
	Count, Base int64
	// Into is the place in Events of the one that took the rest; -1 when it is
	// not among them.
	Into int
}

// Heir is a store that takes over what others know.
type Heir interface {
	// Inherit adds l to what the store knows. Each occurrence that l tells and
	// that the store had been told as well counts once. Every Event in l is
	// told of again. The same Legacy again changes nothing.
	Inherit(ctx context.Context, now time.Time, l Legacy) error
}
