// Package store is the contract of what Event writes share: which Events are stored, what was merged into them, how
// full each token bucket is, and what is still to be written to the API server. It knows neither policies nor
// admission reviews; its callers translate. The rules of a step are in store/engine, and store/memory and store/redis
// keep their state. No method sleeps.
package store

import (
	"container/heap"
	"container/ring"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// ErrFull says that the pending writes of a namespace, which the error names, use all the memory that it
// may have in a store. The caller decides without the store.
var ErrFull = errors.New("store is full of pending writes")

// ErrUnconfirmed comes with a decision that stands, although the shared store has not confirmed it in time.
var ErrUnconfirmed = errors.New("shared store has not confirmed a decision in time")

// ErrBusy says that this process was too busy to serve a call in time. It says nothing about the shared store.
var ErrBusy = errors.New("no turn in time")

// Store decides Event writes, each in one atomic step of its group. It is safe for concurrent use. Stores count in
// whole microseconds: times are truncated, durations rounded up; less than 0 is 0, and 142 years are the most.
type Store interface {
	Decide(ctx context.Context, now time.Time, w Write, l Limits) (Decision, error)
}

// Verdict is what becomes of an Event write.
type Verdict int

// The verdicts.
const (
	Admit     Verdict = iota // lets the write through as it is
	Aggregate                // lets a CREATE through as the aggregate of similar Events
	Merge                    // refuses the write; a stored Event reports its occurrences
	Drop                     // refuses the write; a notice reports its occurrences
	// Deny refuses the write and keeps nothing of it: the shared store is unavailable and
	// Bucket.OnFailure of Decision.RefusedBy says so.
	Deny
)

// String is the verdict as metrics and logs show it.
func (v Verdict) String() string {
	return [...]string{Admit: "admit", Aggregate: "aggregate", Merge: "merge", Drop: "drop", Deny: "deny"}[v]
}

// Admits reports whether the write goes through.
func (v Verdict) Admits() bool { return v == Admit || v == Aggregate }

// Decision is the answer to one write.
type Decision struct {
	Verdict Verdict
	// MergedInto is the name of the stored Event that takes the occurrences, in the namespace of the
	// write, and Total how many it has then, from 1. Set for Merge.
	MergedInto string
	Total      int64
	// MergedIntoID is the identity of that Event, as far as it is known.
	MergedIntoID Identity
	// RefusedBy is the bucket that had no token: the spam filter's, else the first such of Limits.Quotas, or any that is
	// known to be empty. Next is when it will have one; zero for never. Set for Drop and, without Next, for Deny.
	RefusedBy   *Bucket
	NextToken   time.Time
	Occurrences int64 // new ones that the write reports, where it was refused or is to be stored
	Retry       bool  // an UPDATE that was admitted is asked about again: it takes no tokens
	FromCache   bool  // the shared store was not asked
	// Overflowed is the first of Limits.Quotas that would be one bucket more than its namespace may have: its overflow bucket
	// has decided instead. Unrecorded says that there is no place for the write's register.
	Overflowed *Bucket
	Untracked  bool
	// Order is higher for each step of a store than for those before: the time now in microseconds of Unix
	// time, or as little more as that takes. It begins anew when a clock that was ahead is put right. 0 where a store
	// does not know.
	Order int64
}

// Key names a piece of state. It is half a SHA-256 over parts that each carry their length: no two lists of
// parts share a key, none grows with its input, and no client can search for a collision in useful time.
// The zero Key names nothing.
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

// Clip is s, cut to n bytes at most, between two runes where it is UTF-8. What is cut does not keep s alive.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n
	for end > max(0, n-utf8.UTFMax) && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.Clone(s[:end])
}

// StepIDs names the steps of a process. It may be used concurrently. Make it with NewStepIDs.
type StepIDs struct {
	Process [8]byte // a random id of the process
	number  atomic.Uint64
}

// NewStepIDs begins with step 1.
func NewStepIDs() *StepIDs {
	s := &StepIDs{}
	_, _ = rand.Read(s.Process[:]) // never fails
	return s
}

// Next is Writer and the next number: a name that no other step of any process has.
func (s *StepIDs) Next() Key {
	var k Key
	copy(k[:], s.Process[:])
	binary.BigEndian.PutUint64(k[len(s.Process):], s.number.Add(1))
	return k
}

// Hasher builds Keys part by part and can be used again after Sum. The zero value is ready. It is for one
// goroutine at a time.
type Hasher struct{ buf []byte }

// hasherBytes fits the parts of most Events.
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
func (h *Hasher) AddKey(k Key) *Hasher { return h.Add(string(k[:])) }

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

// FairLRU keeps values by Key within a bound that namespaces share. It evicts the entry used longest ago of the
// namespace that holds most, so a namespace loses nothing to another that holds less. A pinned entry is not
// evicted. Each operation takes time in the logarithm of the number of namespaces. It is for one goroutine at a time.
type FairLRU[V any] struct {
	capacity, size, pinned int64
	entries                map[Key]*Entry[V]
	namespaces             map[string]*namespaceLRU[V]
	bySize                 largestFirst[V]
	// OnRemove, if set, is called for each entry that is removed or evicted, and must not use the FairLRU.
	OnRemove func(namespace string, key Key)
}

// Entry is a value in a FairLRU.
type Entry[V any] struct {
	Key   Key
	Value V

	owner  *namespaceLRU[V]
	size   int64
	pinned bool
	ring   ring.Ring // of the entries of its namespace that are not pinned
	expiry expiring  // among ends of its holder, where Ends was called
}

// namespaceLRU is a namespace that has entries.
type namespaceLRU[V any] struct {
	namespace    string
	index        int // in the order
	entries      int
	size, pinned int64
	ring         ring.Ring // its value is nil; the entry used longest ago comes next
	expiries     expiryHeap
}

// oldest is the entry used longest ago of those that are not pinned, or nil.
func (h *namespaceLRU[V]) oldest() *Entry[V] {
	e, _ := h.ring.Next().Value.(*Entry[V])
	return e
}

// NewFairLRU makes an empty FairLRU that holds at most most, in the unit in which its entries have sizes.
func NewFairLRU[V any](most int64) *FairLRU[V] {
	return &FairLRU[V]{capacity: most, entries: map[Key]*Entry[V]{}, namespaces: map[string]*namespaceLRU[V]{}}
}

// Len is the number of entries.
func (t *FairLRU[V]) Len() int { return len(t.entries) }

// LenOf is the number of entries of a namespace.
func (t *FairLRU[V]) LenOf(namespace string) int {
	if h := t.namespaces[namespace]; h != nil {
		return h.entries
	}
	return 0
}

// Size is the sum of their sizes.
func (t *FairLRU[V]) Size() int64 { return t.size }

// Shrink evicts until there is space for more, or nothing is left to evict.
func (t *FairLRU[V]) Shrink(more int64) {
	for evicted := true; evicted; {
		evicted = t.Evict(more) != nil
	}
}

// All are all entries. The map is not to be changed.
func (t *FairLRU[V]) All() map[Key]*Entry[V] { return t.entries }

// Get is the entry of a key, or nil. That does not use it.
func (t *FairLRU[V]) Get(key Key) *Entry[V] { return t.entries[key] }

// Add makes the entry of a key that has none. It is pinned and has no size until Set.
func (t *FairLRU[V]) Add(key Key, namespace string, value V) *Entry[V] {
	h := t.namespaces[namespace]
	if h == nil {
		h = &namespaceLRU[V]{namespace: strings.Clone(namespace)}
		t.namespaces[h.namespace] = h
		heap.Push(&t.bySize, h)
	}
	h.entries++
	e := &Entry[V]{Key: key, Value: value, owner: h, pinned: true}
	e.ring.Value = e
	t.entries[key] = e
	return e
}

// Update marks an entry as just used, and sets its size and whether it is pinned.
func (t *FairLRU[V]) Update(e *Entry[V], size int64, pinned bool) {
	h := e.owner
	e.ring.Prev().Unlink(1)
	if e.pinned {
		h.pinned, t.pinned = h.pinned-e.size, t.pinned-e.size
	}
	h.size, t.size = h.size+size-e.size, t.size+size-e.size
	e.size, e.pinned = size, pinned
	if pinned {
		h.pinned, t.pinned = h.pinned+size, t.pinned+size
	} else {
		h.ring.Prev().Link(&e.ring)
	}
	heap.Fix(&t.bySize, h.index)
}

// SetExpiry says until when an entry counts as one that exists.
func (t *FairLRU[V]) SetExpiry(e *Entry[V], until time.Time) { e.owner.expiries.set(&e.expiry, until) }

// Live is how many entries of a namespace exist at now, of those of which Ends says until when.
func (t *FairLRU[V]) Live(now time.Time, namespace string) int {
	h := t.namespaces[namespace]
	if h == nil {
		return 0
	}
	h.expiries.popExpired(now, func(*expiring) {})
	return len(h.expiries)
}

// Pin pins an entry.
func (t *FairLRU[V]) Pin(e *Entry[V]) { t.Update(e, e.size, true) }

// Remove removes an entry.
func (t *FairLRU[V]) Remove(e *Entry[V]) {
	t.Update(e, 0, true)
	e.owner.expiries.remove(&e.expiry)
	delete(t.entries, e.Key)
	if t.OnRemove != nil {
		t.OnRemove(e.owner.namespace, e.Key)
	}
	if e.owner.entries--; e.owner.entries == 0 {
		heap.Remove(&t.bySize, e.owner.index)
		delete(t.namespaces, e.owner.namespace)
	}
}

// Evict removes an entry and returns it, if that is needed to hold more; nil if it is not, or if all is pinned.
func (t *FairLRU[V]) Evict(more int64) *Entry[V] {
	if t.size+more <= t.capacity || len(t.bySize) == 0 {
		return nil
	}
	e := t.bySize[0].oldest()
	if e != nil {
		t.Remove(e)
	}
	return e
}

// CanPin reports whether a namespace may pin more: no more than is pinned of no namespace at all. So one alone can pin
// half of what a FairLRU may hold, and there is always a part left for the next.
func (t *FairLRU[V]) CanPin(namespace string, more int64) bool {
	if h := t.namespaces[namespace]; h != nil {
		more += h.pinned
	}
	return more <= t.capacity-t.pinned
}

// largestFirst is a heap of namespaces: that which holds most, and of which something can be evicted, comes first.
type largestFirst[V any] []*namespaceLRU[V]

func (b largestFirst[V]) Len() int { return len(b) }

func (b largestFirst[V]) Less(i, j int) bool {
	if a, b := b[i].oldest() != nil, b[j].oldest() != nil; a != b {
		return a
	}
	return b[i].size > b[j].size
}

func (b largestFirst[V]) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].index, b[j].index = i, j
}

func (b *largestFirst[V]) Push(x any) {
	h := x.(*namespaceLRU[V])
	h.index = len(*b)
	*b = append(*b, h)
}

func (b *largestFirst[V]) Pop() any {
	last := len(*b) - 1
	h := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return h
}
