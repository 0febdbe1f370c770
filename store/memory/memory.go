// Package memory is the store in the memory of one process: for one replica, for development and
// for forecasts.
package memory

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/lru"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// DefaultBytes and MinBytes bound the memory that a Store may be given. AuditBytes is enough where nothing
// is decided for good.
const (
	DefaultBytes = 128 << 20
	AuditBytes   = 16 << 20
	MinBytes     = 1 << 20
)

// maxLevels is how many quotas have a level; past it, the one used longest ago is full again.
const maxLevels = 1 << 16

// Options are the settings of a Store.
type Options struct {
	// Bytes is how much a Store may hold, at least MinBytes, by an estimate that the tests hold
	// against the heap. The levels of quotas are beside it.
	Bytes int64
	// Unsettled says that nobody settles what is stored: nothing is pending.
	Unsettled bool
}

// Store is a store.Store and store.Queue in the memory of one process. It is safe for concurrent use:
// one lock guards everything, and a step takes some microseconds.
//
// At its bound it forgets the group used longest ago of which nothing is pending, whose bucket is
// full again if it comes back; where something is pending for each, it is full.
type Store struct {
	opts   Options
	writer [8]byte // names this Store in the names of its steps

	mu      sync.Mutex
	bytes   int64
	groups  map[store.Key]*entry
	idle    *list.List // of the *entry of which nothing is pending, most recently used first
	pending map[*entry]struct{}
	turns   rules.Turns
	levels  *lru.Cache // store.Key to rules.Level
	steps   uint64
	order   int64     // of the last decision
	last    time.Time // the latest time of a step
}

// entry is a group with its place in a Store.
type entry struct {
	rules.Group
	key   store.Key
	bytes int64         // size when last measured
	idle  *list.Element // nil while something is pending
	due   time.Time     // when something is; zero while nothing is pending
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Queue = (*Store)(nil)
)

// New makes an empty Store.
func New(o Options) (*Store, error) {
	if o.Bytes < MinBytes {
		return nil, fmt.Errorf("memory store of %d bytes: must have at least %d", o.Bytes, MinBytes)
	}
	s := &Store{
		opts:    o,
		groups:  map[store.Key]*entry{},
		idle:    list.New(),
		pending: map[*entry]struct{}{},
		levels:  lru.New(maxLevels),
	}
	_, _ = rand.Read(s.writer[:]) // never fails
	return s, nil
}

// ID names the Store among those of other processes.
func (s *Store) ID() string { return hex.EncodeToString(s.writer[:4]) }

// Decide implements store.Store.
func (s *Store) Decide(_ context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.at(now)
	e, known, err := s.enter(now, w.Group)
	if err != nil {
		return store.Decision{}, err
	}
	levels, grants := s.ask(now, l.Quotas)
	d, changed := e.Decide(now, s.fresh(), w, &l, grants)
	if known || changed {
		s.measure(e)
	} else {
		delete(s.groups, e.key)
	}
	for i := range l.Quotas {
		if grants[i].OK && !d.Paid && d.Verdict.Admits() {
			s.levels.Add(l.Quotas[i].Key, levels[i])
		}
	}
	if d.Verdict == store.Drop && d.Empty != &l.Spam {
		drops := rules.Dropped(now, w, &l, d.Empty, d.Occurrences)
		s.addDrops(now, rules.NoticeKey(d.Empty), &drops)
	}
	return s.ordered(now, d), nil
}

// at is now as steps know it.
func (s *Store) at(now time.Time) time.Time {
	now = now.Truncate(time.Microsecond)
	if now.After(s.last) {
		s.last = now
	}
	return now
}

// fresh names a step as no other step of any Store is named.
func (s *Store) fresh() store.Key {
	s.steps++
	var k store.Key
	copy(k[:], s.writer[:])
	binary.BigEndian.PutUint64(k[len(s.writer):], s.steps)
	return k
}

// ask asks quotas for a token each: what they answer, and what their levels are without it.
func (s *Store) ask(now time.Time, quotas []store.Bucket) ([]rules.Level, []rules.Grant) {
	levels, grants := make([]rules.Level, len(quotas)), make([]rules.Grant, len(quotas))
	for i := range quotas {
		levels[i], grants[i] = s.level(quotas[i].Key).Take(quotas[i].Limit, now)
	}
	return levels, grants
}

func (s *Store) level(quota store.Key) rules.Level {
	if x, ok := s.levels.Get(quota); ok {
		return x.(rules.Level)
	}
	return rules.Level{}
}

// ordered gives a decision its place among all of them. Callers look at their clocks before they take
// the lock, so times alone would not say.
func (s *Store) ordered(now time.Time, d store.Decision) store.Decision {
	s.order = max(s.order+1, now.UnixMicro())
	d.Order = s.order
	return d
}

// stepBytes is more than one decision adds: to its group, and to the notice of a quota.
const stepBytes = 16 << 10

// enter finds or makes a group and takes it from the idle ones while a step is at it. It makes sure of
// the bytes that the step may add.
func (s *Store) enter(now time.Time, key store.Key) (e *entry, known bool, err error) {
	e, known = s.known(now, key)
	if known {
		s.wake(e)
	}
	s.shrink(now, stepBytes)
	if s.bytes+stepBytes > s.opts.Bytes {
		if known {
			s.measure(e)
		}
		return nil, known, store.ErrFull
	}
	if !known {
		e = s.make(key)
	}
	return e, known, nil
}

func (s *Store) make(key store.Key) *entry {
	e := &entry{key: key}
	s.groups[key] = e
	return e
}

// known finds a group. An idle one whose time has passed is forgotten, so that what is known does not
// depend on whether shrink came by.
func (s *Store) known(now time.Time, key store.Key) (*entry, bool) {
	e, ok := s.groups[key]
	if ok && s.past(e, now) {
		s.forget(e)
		return nil, false
	}
	return e, ok
}

// past reports whether a group is idle and does not matter any more.
func (s *Store) past(e *entry, now time.Time) bool {
	return e.idle != nil && now.UnixMicro() > e.Until
}

// measure brings the count of bytes, the idle groups and the pending ones up to date with e.
func (s *Store) measure(e *entry) {
	if s.opts.Unsettled {
		e.Discard()
	}
	size := e.Size()
	s.bytes += size - e.bytes
	e.bytes = size
	s.wake(e)
	if e.due = e.Due(); e.due.IsZero() {
		delete(s.pending, e)
		e.idle = s.idle.PushFront(e)
	} else {
		s.pending[e] = struct{}{}
	}
}

// wake takes e from the idle groups, if it is one of them.
func (s *Store) wake(e *entry) {
	if e.idle != nil {
		s.idle.Remove(e.idle)
		e.idle = nil
	}
}

// shrink forgets idle groups, the one used longest ago first, until there is space for more bytes. Of
// those whose time has passed it forgets a few at most, so that one step stays short; each step looks
// again.
func (s *Store) shrink(now time.Time, more int64) {
	const few = 8
	for n := 0; s.idle.Len() > 0; n++ {
		e := s.idle.Back().Value.(*entry)
		if s.bytes+more <= s.opts.Bytes && (n >= few || !s.past(e, now)) {
			return
		}
		s.forget(e)
	}
}

// forget forgets a group of which nothing is pending.
func (s *Store) forget(e *entry) {
	s.wake(e)
	delete(s.groups, e.key)
	s.bytes -= e.bytes
}
