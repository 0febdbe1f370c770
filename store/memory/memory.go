// Package memory is the store in the memory of one process: for one replica, for development and for forecasts.
package memory

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// Memory that a Store may be given: by default, for audited rules, and at least.
const (
	DefaultBytes = 128 << 20
	AuditBytes   = 16 << 20
	MinBytes     = 1 << 20
)

// maxLevels is how many quotas have a level; past it, that of the namespace with most that was used longest ago is full again.
const maxLevels = 1 << 16

// Options are the settings of a Store.
type Options struct {
	// Bytes bounds the estimated size of a Store, at least MinBytes. The levels of quotas are not included.
	Bytes int64
	// Unsettled says that nobody settles what is stored: nothing is pending.
	Unsettled bool
	// Bounds are those of each namespace.
	Bounds store.Bounds
}

// Store is a store.Store and store.Queue in the memory of one process. It is safe for concurrent use:
// one lock guards everything, and a step takes some microseconds.
//
// At its bound it forgets the group used longest ago of which nothing is pending, of the namespace that holds
// most; its bucket is full again if it comes back. Where what is pending of a namespace takes as much as is left,
// the Store is full for that namespace.
type Store struct {
	opts  Options
	steps *store.Steps

	mu      sync.Mutex
	groups  *store.Table[*entry] // something is pending of those that are pinned
	pending pending
	turns   rules.Turns
	levels  *store.Table[rules.Level]
	buckets *store.Places // the levels that are counted
	order   int64         // of the last decision, as callers read their clocks before they take the lock
	last    time.Time     // the latest time of a step, by the clock as it is now
}

// entry is a group with its place in a Store.
type entry struct {
	rules.Group
	place *store.Entry[*entry]
	turn  *turn // nil while nothing is pending
	at    int   // its place in there
	due   int64 // when something is, in microseconds of Unix time
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Queue = (*Store)(nil)
)

// New makes an empty Store.
func New(o Options) *Store {
	s := &Store{
		opts:    o,
		steps:   store.NewSteps(),
		groups:  store.NewTable[*entry](o.Bytes),
		pending: pending{turns: map[string]*turn{}},
		levels:  store.NewTable[rules.Level](maxLevels),
		buckets: store.NewPlaces(o.Bounds.BucketsOf),
	}
	s.levels.Removed = s.buckets.Leave
	return s
}

// ID distinguishes the Store from those of other processes.
func (s *Store) ID() string { return hex.EncodeToString(s.steps.Writer[:4]) }

// Decide implements store.Store.
func (s *Store) Decide(_ context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.at(now)
	d, err := s.decide(now, &w, &l)
	if err != nil {
		return store.Decision{}, err
	}
	if d.Verdict == store.Drop && d.Empty != &l.Spam {
		drops := rules.Dropped(now, w, &l, d.Empty, d.Occurrences)
		s.addDrops(now, w.Namespace, rules.NoticeKey(d.Empty), &drops)
	}
	s.order = max(s.order+1, now.UnixMicro())
	d.Order = s.order
	return d, nil
}

// at is the time of a step. If the clock has gone back, what is pending is corrected, as it may be due much later; all
// else is corrected when it is used.
func (s *Store) at(now time.Time) time.Time {
	now = now.Truncate(time.Microsecond)
	ahead := s.last.Sub(now)
	if ahead > rules.Skew {
		s.order = now.UnixMicro()
		for _, e := range s.pending.all() {
			e.Correct(now)
			s.measure(e)
		}
	}
	if ahead < 0 || ahead > rules.Skew {
		s.last = now
	}
	return now
}

// enter finds or makes a group, of which nothing is forgotten until it is measured. It makes sure of the bytes
// that the step may add for a namespace.
func (s *Store) enter(now time.Time, namespace string, key store.Key) (e *entry, known bool, err error) {
	e = s.known(now, key)
	if known = e != nil; known {
		s.groups.Pin(e.place)
	}
	if err := s.ensure(namespace); err != nil {
		if known {
			s.measure(e)
		}
		return nil, known, err
	}
	if !known {
		e = s.make(namespace, key)
	}
	return e, known, nil
}

// ensure makes sure of the bytes of a step for a namespace.
func (s *Store) ensure(namespace string) error {
	if !s.groups.Fits(namespace, stepBytes) {
		return fmt.Errorf("%w of namespace %q", store.ErrFull, namespace)
	}
	s.groups.Shrink(stepBytes)
	return nil
}

func (s *Store) make(namespace string, key store.Key) *entry {
	e := &entry{}
	e.place = s.groups.Add(key, namespace, e)
	return e
}

// known finds a group. One whose time has passed is forgotten; one that nobody asks for stays until its bytes are needed.
func (s *Store) known(now time.Time, key store.Key) *entry {
	place := s.groups.Get(key)
	if place == nil {
		return nil
	}
	if place.Value.Expired(now) {
		s.groups.Remove(place)
		return nil
	}
	return place.Value
}

// measure brings the count of bytes and what is pending up to date with e.
func (s *Store) measure(e *entry) {
	if s.opts.Unsettled {
		e.Discard()
	}
	if due := e.Due(); e.turn != nil || !due.IsZero() {
		s.pending.keep(e, due)
	}
	s.groups.Set(e.place, e.Size(), e.turn != nil)
	s.groups.Ends(e.place, e.Ends())
}

// ReportDrops lets the notice of a register report drops of Events of a namespace. It returns store.ErrFull
// when they do not fit.
func (s *Store) ReportDrops(now time.Time, namespace string, register store.Key, d *rules.Drops) error {
	if d.None() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.at(now)
	if d.Total <= 0 {
		s.addMissing(now, register, d)
		return nil
	}
	if _, _, err := s.enter(now, namespace, register); err != nil {
		return err
	}
	s.addDrops(now, namespace, register, d)
	return nil
}

// addDrops adds drops to the notice of a register. The caller has made sure of the bytes.
func (s *Store) addDrops(now time.Time, namespace string, register store.Key, d *rules.Drops) {
	if d.Total <= 0 {
		return
	}
	e := s.known(now, register)
	if e == nil && d.Counted() && s.full(now, namespace) {
		register, _ = d.Overflow()
		e = s.known(now, register)
	}
	if e == nil {
		e = s.make(namespace, register)
	}
	e.AddDrops(now, s.steps.Next(), d)
	s.measure(e)
}

// Claim implements store.Queue. The lock is held while claimed is called, which must not call the Store.
func (s *Store) Claim(_ context.Context, now time.Time, ahead time.Duration, n int, claimed func(turn string, group store.Key) bool) ([]store.PendingWrite, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at(now)
	by := rules.By(now, ahead)
	due, putBack := s.pending.due(by.UnixMicro())
	defer putBack()
	var writes []store.PendingWrite
	for _, d := range s.turns.Pick(due, n, claimed) {
		if place := s.groups.Get(d.Group); place != nil {
			writes = append(writes, place.Value.Claim(d.Group, by)...)
		}
	}
	return writes, nil
}

// Complete implements store.Queue. A write of a group that is not known any more is ignored.
func (s *Store) Complete(_ context.Context, now time.Time, p store.PendingWrite, o store.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.at(now)
	e := s.known(now, p.Ref.Group)
	if e == nil {
		return nil
	}
	e.Complete(now, s.steps.Next(), &p, o)
	s.measure(e)
	s.groups.Shrink(0)
	return nil
}

// Pending implements store.Queue.
func (s *Store) Pending(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.pending.groups), nil
}

// Peek copies what is known of groups and of the levels of quotas. It changes nothing but which levels
// were used last. Each group is as it is at one moment; the lock is held for one at a time. The Store
// has no clock: State.At is the time of the latest step.
func (s *Store) Peek(_ context.Context, groups, levels []store.Key) (rules.State, error) {
	st := rules.State{Groups: map[store.Key]*rules.Group{}, Levels: map[store.Key]rules.Level{}}
	for _, key := range groups {
		s.peekGroup(key, &st)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range levels {
		if v := s.level(key); v != (rules.Level{}) {
			st.Levels[key] = v
		}
	}
	st.At = s.last
	return st, nil
}

func (s *Store) peekGroup(key store.Key, st *rules.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if place := s.groups.Get(key); place != nil && !place.Value.Expired(s.last) {
		st.Groups[key] = place.Value.Clone()
	}
}
