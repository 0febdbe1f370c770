package store

import "time"

// Limit is the size and the refill rate of a token bucket. A bucket starts full and holds at most
// Burst tokens; one comes back after each Every.
type Limit struct {
	Burst   int           // 0 or less gives no token, ever
	Every   time.Duration // 0 or less means that tokens never run out
	Reserve int           // tokens that a write must leave for writes that may use them all, 0 to Burst
}

// Bucket is a token bucket that a write must get a token from.
type Bucket struct {
	Limit
	// Key names the bucket's state; Name and Policy are the names of the bucket, for example "spam filter", and
	// of its rule in answers and notices.
	Key          Key
	Name, Policy string
	// About is what a notice about this bucket's drops is about. Silent says that there is none.
	About  Object
	Silent bool
	// OnFailure is what the bucket does while the shared store is unavailable.
	OnFailure Failure
}

// Limits are the settings that govern one write.
type Limits struct {
	// Merge says that repeats and similar Events are merged. Without it a CREATE only pays.
	Merge bool
	// MaxEvents is how many distinct messages of similar Events it takes until they are combined
	// into an aggregate, from 1. KeepMessages is how many of them that keeps.
	MaxEvents, KeepMessages int
	// Window is how long similar Events stay similar after the last one, and how long one notice
	// and one reserve last.
	Window time.Duration
	// RepeatWindow is how long after its last occurrence a stored Event takes repeats, and how long
	// the names of refused Events are kept.
	RepeatWindow time.Duration
	// WriteInterval is the least time between two writes of a stored Event or notice. It doubles
	// with each write, up to MaxWriteInterval.
	WriteInterval, MaxWriteInterval time.Duration
	// Spam is a bucket of the write's source and object; the zero value is none.
	Spam Bucket
	// ReservePerReason is how many Events of a reason, the first ones of the write's group in each
	// Window, are admitted even when a spam filter is empty.
	ReservePerReason int
	// ChargeMerged makes a merged CREATE take a token from the spam filter too.
	ChargeMerged bool
	// Quotas are buckets that many groups share. Their keys differ.
	Quotas []Bucket
}

// Failure is what a bucket does while the shared store is unavailable.
type Failure int

// The choices.
const (
	Local    Failure = iota // gives tokens by the state of this replica
	AdmitAll                // gives every write a token, without counting it
	DenyAll                 // refuses every write, with the verdict Deny
)

// String is the setting as metrics and logs show it.
func (f Failure) String() string {
	return [...]string{Local: "local", AdmitAll: "admit", DenyAll: "deny"}[f]
}
