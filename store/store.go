// Package store defines the state that Event writes share: the stored Events, the occurrences merged into them, the
// token buckets, and the writes to the API server that are pending. It knows neither policies nor admission reviews;
// its callers translate. Package store/engine decides, and store/memory and store/redis keep the state. No method
// sleeps.
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

// ErrFull reports that the pending writes of a namespace, which the error names, use all the memory that the
// namespace may have in a store. The caller decides without the store.
var ErrFull = errors.New("store is full of pending writes")

// ErrUnconfirmed accompanies a valid decision that the shared store did not confirm in time.
var ErrUnconfirmed = errors.New("shared store has not confirmed a decision in time")

// ErrBusy reports that this process was too busy to serve a call in time. The shared store may be healthy.
var ErrBusy = errors.New("too busy to serve the call in time")

// Store decides Event writes, each in one atomic step of its group. It is safe for concurrent use. Stores count in
// whole microseconds: times are truncated and durations rounded up, from 0 to 142 years.
type Store interface {
	Decide(ctx context.Context, now time.Time, w Write, l Limits) (Decision, error)
}

// Verdict is the decision about an Event write.
type Verdict int

// The verdicts.
const (
	Admit     Verdict = iota // lets the write through as it is
	Aggregate                // lets a CREATE through as the aggregate of similar Events
	Merge                    // refuses the write; a stored Event reports its occurrences
	Drop                     // refuses the write; a notice reports its occurrences
	// Deny refuses the write without a trace: the shared store is unavailable, and Bucket.OnFailure of
	// Decision.RefusedBy is DenyAll.
	Deny
)

// String returns the verdict as metrics and logs show it.
func (v Verdict) String() string {
	return [...]string{Admit: "admit", Aggregate: "aggregate", Merge: "merge", Drop: "drop", Deny: "deny"}[v]
}

// Admits reports whether the write goes through.
func (v Verdict) Admits() bool { return v == Admit || v == Aggregate }

// Decision is the answer to one write.
type Decision struct {
	Verdict Verdict
	// MergedInto is the name of the stored Event that counts the occurrences, in the namespace of the
	// write, and Total is its new count, from 1. Both are set for Merge.
	MergedInto string
	Total      int64
	// MergedIntoID is the identity of that Event, as far as it is known. Set for Merge.
	MergedIntoID Identity
	// RefusedBy is the bucket that had no token: the spam filter, else the first empty one of Limits.Quotas, or any that is
	// known to be empty. NextToken is the time of its next token; zero for never. Drop sets both, and Deny only RefusedBy.
	RefusedBy   *Bucket
	NextToken   time.Time
	Occurrences int64 // new occurrences that the write reports, if it is refused or a CREATE
	Repeats     int64 // how many of the new occurrences repeat a count that had been sent, see Write.Stamp: 0 or 1
	Retry       bool  // the API server asks again about an UPDATE that was admitted: it takes no tokens
	FromCache   bool  // the shared store was not asked
	// Overflowed is the first of Limits.Quotas that would exceed the number of buckets of its namespace: its overflow
	// bucket has decided instead. Untracked reports that the namespace has no register left for the write.
	Overflowed *Bucket
	Untracked  bool
	// Order increases with each step of a store. It is the current time in microseconds of Unix time, or the
	// previous value plus one if that is later. It starts again after a clock that was ahead has been corrected. It is 0
	// if the store does not know.
	Order int64
}

// Key names a piece of state. It is half a SHA-256 over parts, each prefixed by its length, so different lists of parts
// have different keys. A key never grows with its input, and no client can find a collision in useful time.
// The zero Key names nothing.
type Key [16]byte

// IsZero reports whether k names nothing.
func (k Key) IsZero() bool { return k == Key{} }

// String returns k as 32 hexadecimal characters, which are safe in names and logs.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// MarshalText implements encoding.TextMarshaler as String does.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses the output of String.
func (k *Key) UnmarshalText(text []byte) error {
	decoded, err := hex.DecodeString(string(text))
	if err != nil || len(decoded) != len(k) {
		return fmt.Errorf("%.40q: must be %d hexadecimal digits", text, hex.EncodedLen(len(k)))
	}
	copy(k[:], decoded)
	return nil
}

// Clip returns s, cut to at most n bytes. It cuts valid UTF-8 between runes. A shortened result does not keep s in memory.
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

// StepIDs generates unique names for the steps of a process. It is safe for concurrent use. Make it with NewStepIDs.
type StepIDs struct {
	Process [8]byte // a random id of the process
	number  atomic.Uint64
}

// NewStepIDs returns StepIDs with a random process id, whose first step is 1.
func NewStepIDs() *StepIDs {
	s := &StepIDs{}
	_, _ = rand.Read(s.Process[:]) // never fails
	return s
}

// Next returns a name that no other step of any process has: Process and the next number.
func (s *StepIDs) Next() Key {
	var k Key
	copy(k[:], s.Process[:])
	binary.BigEndian.PutUint64(k[len(s.Process):], s.number.Add(1))
	return k
}

// Hasher builds Keys part by part. It can be reused after Sum, and its zero value is ready to use. It is not safe for
// concurrent use.
type Hasher struct{ buf []byte }

// hasherBytes fits the parts of most Events.
const hasherBytes = 512

// Add appends parts. It returns h, so that calls can be chained.
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

// Sum returns the Key of the parts added since the last Sum.
func (h *Hasher) Sum() Key {
	sum := sha256.Sum256(h.buf)
	h.buf = h.buf[:0]
	return Key(sum[:len(Key{})])
}

// KeyOf returns the Key of parts.
func KeyOf(parts ...string) Key {
	var h Hasher
	return h.Add(parts...).Sum()
}

// FairLRU is a cache of values by Key whose capacity namespaces share. It evicts the least recently used entry of the
// largest namespace, so no namespace loses an entry to a larger one. Pinned entries are not evicted. Each
// operation takes time in the logarithm of the number of namespaces. It is not safe for concurrent use.
type FairLRU[V any] struct {
	capacity, size, pinned int64
	entries                map[Key]*Entry[V]
	namespaces             map[string]*namespaceLRU[V]
	bySize                 largestFirst[V]
	// OnRemove, if set, is called for each entry that is removed or evicted. It must not use the FairLRU.
	OnRemove func(namespace string, key Key)
}

// Entry is a value in a FairLRU.
type Entry[V any] struct {
	Key   Key
	Value V

	owner  *namespaceLRU[V]
	size   int64
	pinned bool
	ring   ring.Ring // links the unpinned entries of its namespace
	expiry expiring  // is in the expiries of its owner after SetExpiry
}

// namespaceLRU has the entries of one namespace.
type namespaceLRU[V any] struct {
	namespace    string
	index        int // in bySize
	entries      int
	size, pinned int64
	ring         ring.Ring // its value is nil, and the least recently used entry follows it
	expiries     expiryHeap
}

// oldest returns the least recently used entry that is not pinned, or nil.
func (n *namespaceLRU[V]) oldest() *Entry[V] {
	e, _ := n.ring.Next().Value.(*Entry[V])
	return e
}

// NewFairLRU returns an empty FairLRU. Its capacity has the unit of the sizes that Update gets.
func NewFairLRU[V any](capacity int64) *FairLRU[V] {
	return &FairLRU[V]{capacity: capacity, entries: map[Key]*Entry[V]{}, namespaces: map[string]*namespaceLRU[V]{}}
}

// Len returns the number of entries.
func (f *FairLRU[V]) Len() int { return len(f.entries) }

// LenOf returns the number of entries of a namespace.
func (f *FairLRU[V]) LenOf(namespace string) int {
	if n := f.namespaces[namespace]; n != nil {
		return n.entries
	}
	return 0
}

// Size returns the sum of the sizes of all entries.
func (f *FairLRU[V]) Size() int64 { return f.size }

// Shrink evicts entries until there is space for more, or nothing is left to evict.
func (f *FairLRU[V]) Shrink(more int64) {
	for evicted := true; evicted; {
		evicted = f.Evict(more) != nil
	}
}

// All returns all entries. The caller must not change the map.
func (f *FairLRU[V]) All() map[Key]*Entry[V] { return f.entries }

// Get returns the entry of a key, or nil. It does not mark the entry as used.
func (f *FairLRU[V]) Get(key Key) *Entry[V] { return f.entries[key] }

// Add adds an entry for a key that has none. The entry is pinned and has size 0 until Update.
func (f *FairLRU[V]) Add(key Key, namespace string, value V) *Entry[V] {
	n := f.namespaces[namespace]
	if n == nil {
		n = &namespaceLRU[V]{namespace: strings.Clone(namespace)}
		f.namespaces[n.namespace] = n
		heap.Push(&f.bySize, n)
	}
	n.entries++
	e := &Entry[V]{Key: key, Value: value, owner: n, pinned: true}
	e.ring.Value = e
	f.entries[key] = e
	return e
}

// Update marks an entry as just used, and sets its size and whether it is pinned.
func (f *FairLRU[V]) Update(e *Entry[V], size int64, pinned bool) {
	n := e.owner
	e.ring.Prev().Unlink(1)
	if e.pinned {
		n.pinned, f.pinned = n.pinned-e.size, f.pinned-e.size
	}
	n.size, f.size = n.size+size-e.size, f.size+size-e.size
	e.size, e.pinned = size, pinned
	if pinned {
		n.pinned, f.pinned = n.pinned+size, f.pinned+size
	} else {
		n.ring.Prev().Link(&e.ring)
	}
	heap.Fix(&f.bySize, n.index)
}

// SetExpiry sets until when Live counts an entry.
func (f *FairLRU[V]) SetExpiry(e *Entry[V], until time.Time) { e.owner.expiries.set(&e.expiry, until) }

// Live returns the number of entries of a namespace that have an expiry after now.
func (f *FairLRU[V]) Live(now time.Time, namespace string) int {
	n := f.namespaces[namespace]
	if n == nil {
		return 0
	}
	n.expiries.popExpired(now, func(*expiring) {})
	return len(n.expiries)
}

// Pin pins an entry.
func (f *FairLRU[V]) Pin(e *Entry[V]) { f.Update(e, e.size, true) }

// Remove removes an entry.
func (f *FairLRU[V]) Remove(e *Entry[V]) {
	f.Update(e, 0, true)
	e.owner.expiries.remove(&e.expiry)
	delete(f.entries, e.Key)
	if f.OnRemove != nil {
		f.OnRemove(e.owner.namespace, e.Key)
	}
	if e.owner.entries--; e.owner.entries == 0 {
		heap.Remove(&f.bySize, e.owner.index)
		delete(f.namespaces, e.owner.namespace)
	}
}

// Evict removes and returns one entry if there is no space for more. It returns nil if there is, or if all entries are
// pinned.
func (f *FairLRU[V]) Evict(more int64) *Entry[V] {
	if f.size+more <= f.capacity || len(f.bySize) == 0 {
		return nil
	}
	e := f.bySize[0].oldest()
	if e != nil {
		f.Remove(e)
	}
	return e
}

// CanPin reports whether a namespace may pin more: its pinned size may not exceed the size that no namespace has pinned.
// So one namespace alone can pin half of the capacity, and some is always left for the next one.
func (f *FairLRU[V]) CanPin(namespace string, more int64) bool {
	if n := f.namespaces[namespace]; n != nil {
		more += n.pinned
	}
	return more <= f.capacity-f.pinned
}

// largestFirst is a heap of namespaces. The largest one that has an entry to evict comes first.
type largestFirst[V any] []*namespaceLRU[V]

func (l largestFirst[V]) Len() int { return len(l) }

func (l largestFirst[V]) Less(i, j int) bool {
	if a, b := l[i].oldest() != nil, l[j].oldest() != nil; a != b {
		return a
	}
	return l[i].size > l[j].size
}

func (l largestFirst[V]) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = i, j
}

func (l *largestFirst[V]) Push(x any) {
	n := x.(*namespaceLRU[V])
	n.index = len(*l)
	*l = append(*l, n)
}

func (l *largestFirst[V]) Pop() any {
	last := len(*l) - 1
	n := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return n
}
