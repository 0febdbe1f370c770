// Package store is the contract of what Event writes share: which Events are stored, what was
// merged into them, how full each token bucket is, and what is still to be written to the API
// server. It knows neither policies nor admission reviews; its callers translate. The rules of a
// step are in store/rules, and each other package below is one place to keep their state in.
// Every method takes the time as an argument and none sleeps.
package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// ErrFull says that a store is at its bound and all it holds is still to be reported, so it
// cannot keep track of anything more. The caller decides without the store.
var ErrFull = errors.New("store is at its memory bound and all that it holds is still unreported")

// ErrUnconfirmed says that a decision stands, but that a shared store has not confirmed it in time. It
// comes with that decision.
var ErrUnconfirmed = errors.New("shared store has not confirmed a decision in time")

// ErrCrowded says that a call had no turn in time, as this process has too much to do: no news of the
// shared store.
var ErrCrowded = errors.New("no turn in time")

// Store decides Event writes, each in one atomic step of its group. Implementations are safe for
// concurrent use.
//
// Stores count in whole microseconds: the time now is truncated to one, and durations are rounded
// up to one; less than 0 is 0, and 142 years are the most.
type Store interface {
	Decide(ctx context.Context, now time.Time, w Write, l Limits) (Decision, error)
}

// Verdict is what becomes of an Event write.
type Verdict int

const (
	// Admit lets the write through as it is.
	Admit Verdict = iota
	// Aggregate lets a CREATE through as the aggregate of similar Events.
	Aggregate
	// Merge refuses the write; a stored Event reports its occurrences.
	Merge
	// Drop refuses the write; a notice reports its occurrences.
	Drop
	// Deny refuses the write and keeps nothing of it: the shared store is unavailable and
	// Bucket.OnFailure of one says so, which is Decision.Empty.
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

// Admits reports whether the write goes through.
func (v Verdict) Admits() bool { return v == Admit || v == Aggregate }

// Decision is the answer to one write.
type Decision struct {
	Verdict Verdict
	// Into is the name of the stored Event that takes the occurrences, in the namespace of the
	// write, and Total how many it has then, from 1. Set for Merge.
	Into  string
	Total int64
	// Empty is the bucket that had no token: the spam filter's, or else the first of Limits.Quotas,
	// or any of them that is known to be empty. Next is when it has one; zero when it never has.
	// Set for Drop and, without Next, for Deny.
	Empty *Bucket
	Next  time.Time
	// Occurrences is how many a refused write reports that no write reported before.
	Occurrences int64
	// Paid says that an UPDATE which was admitted, and took its tokens, was asked again: it takes none.
	Paid bool
	// Unasked says that a shared store was not asked: what is known of it was enough.
	Unasked bool
	// Order says which of two steps of a store came first: each has a higher one than those
	// before. It is the time now in microseconds of Unix time, or as little more as that takes.
	// 0 where a store does not know.
	Order int64
}

// Limit is the size and the refill rate of a token bucket. A bucket starts full and holds at most
// Burst tokens; one comes back after each Every.
type Limit struct {
	// Burst is how many tokens a full bucket holds. 0 or less gives none, ever.
	Burst int
	// Every is the time in which one token comes back. 0 or less means that tokens never run out.
	Every time.Duration
	// Reserve is how many tokens a write must leave, for those that need leave none. 0 to Burst.
	Reserve int
}

// Bucket is a token bucket that a write must get a token from.
type Bucket struct {
	Limit
	// Key names the bucket's state.
	Key Key
	// Name is how answers and notices call the bucket, for example "spam filter", and Policy
	// whose bucket they say it is.
	Name, Policy string
	// About is what a notice about this bucket's drops is about.
	About Object
	// Silent says that no notice reports what the bucket refuses.
	Silent bool
	// OnFailure is what the bucket does while the shared store is unavailable.
	OnFailure Failure
}

// Limits are the settings that govern one write.
type Limits struct {
	// Merge says that repeats and similar Events are merged. Without it a CREATE only pays.
	Merge bool
	// MaxEvents is how many distinct messages of similar Events it takes until they are combined
	// into an aggregate, from 1.
	MaxEvents int
	// Window is how long similar Events stay similar after the last one, and how long one notice
	// and one reserve last.
	Window time.Duration
	// RepeatWindow is how long after its last occurrence a stored Event takes repeats, and how long
	// the names of refused Events are kept.
	RepeatWindow time.Duration
	// WriteInterval is the least time between two writes of a stored Event or notice. It doubles
	// with each write, up to MaxWriteInterval.
	WriteInterval, MaxWriteInterval time.Duration
	// KeepMessages is how many distinct messages an aggregate keeps.
	KeepMessages int
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

const (
	// Local gives tokens by what this replica knows.
	Local Failure = iota
	// AdmitAll gives every write a token; nothing keeps track of it.
	AdmitAll
	// DenyAll refuses every write, with the verdict Deny.
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

// Key names a piece of state. It is the first half of a SHA-256 over parts that
// each carry their length, so that no two different lists of parts share a key
// by concatenation, no key grows with its input, and no client can search for
// a collision in useful time. The zero Key names nothing.
type Key [16]byte

// IsZero reports whether k names nothing.
func (k Key) IsZero() bool { return k == Key{} }

// String is k in hexadecimal, 32 characters, safe in names and logs.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// MarshalText implements encoding.TextMarshaler as String does.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what String writes.
func (k *Key) UnmarshalText(text []byte) error {
	decoded, err := hex.DecodeString(string(text))
	if err != nil || len(decoded) != len(k) {
		return fmt.Errorf("%.40q: must be %d hexadecimal digits", text, hex.EncodedLen(len(k)))
	}
	copy(k[:], decoded)
	return nil
}

// Hasher builds Keys part by part and can be used again after Sum. The zero
// value is ready. It is for one goroutine at a time.
type Hasher struct {
	buf []byte
}

// hasherBytes is room for the parts of most Events, in bytes.
const hasherBytes = 512

// Add appends one part. It returns h, so that calls chain.
func (h *Hasher) Add(parts ...string) *Hasher {
	if h.buf == nil {
		h.buf = make([]byte, 0, hasherBytes)
	}
	for _, part := range parts {
		h.buf = binary.AppendUvarint(h.buf, uint64(len(part)))
		h.buf = append(h.buf, part...)
	}
	return h
}

// AddKey appends another Key as a part.
func (h *Hasher) AddKey(k Key) *Hasher {
	h.buf = binary.AppendUvarint(h.buf, uint64(len(k)))
	h.buf = append(h.buf, k[:]...)
	return h
}

// Sum is the Key of the parts added since the last Sum.
func (h *Hasher) Sum() Key {
	sum := sha256.Sum256(h.buf)
	h.buf = h.buf[:0]
	return Key(sum[:len(Key{})])
}

// KeyOf is the Key of parts.
func KeyOf(parts ...string) Key {
	var h Hasher
	return h.Add(parts...).Sum()
}
