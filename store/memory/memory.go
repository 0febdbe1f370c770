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

// DefaultBytes and MinBytes bound what a Store may be told to use. AuditBytes is enough where nothing
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
		if grants[i].OK && !d.Paid && l.Charges(&w, d.Verdict, i) {
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
