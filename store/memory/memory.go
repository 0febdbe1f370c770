// Package memory is the store in the memory of one process: for a single replica, for development and for simulations.
package memory

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// Sizes of a Store: the default, the size for policies and quotas in mode Audit, and the minimum.
const (
	DefaultBytes = 128 << 20
	AuditBytes   = 16 << 20
	MinBytes     = 1 << 20
)

// maxBucketStates is how many buckets of quotas have a state. Above it, the store forgets the least recently used bucket
// of the largest namespace, which is then full again.
const maxBucketStates = 1 << 16

// Options are the settings of a Store.
type Options struct {
	// Bytes bounds the estimated size of a Store, without the buckets of quotas. At least MinBytes.
	Bytes int64
	// NoSettler turns off pending writes, as no settler would write them.
	NoSettler bool
	// Bounds are the bounds of each namespace.
	Bounds store.Bounds
}

// Store is a store.Store and store.Queue in the memory of one process. It is safe for concurrent use:
// one lock guards everything, and a step takes some microseconds.
//
// At its bound, it evicts the least recently used group of the largest namespace that has no pending write. If that group
// returns, its bucket is full again. If the pending writes of a namespace use all the memory that is left for it,
// the Store is full for that namespace.
type Store struct {
	opts  Options
	steps *store.StepIDs

	mu           sync.Mutex
	groups       *store.FairLRU[*entry] // groups with pending writes are pinned
	pending      pendingQueues
	turns        engine.RoundRobin
	bucketStates *store.FairLRU[engine.BucketState]
	buckets      *store.BoundedSet // the counted buckets
	order        int64             // of the last decision; callers read their clocks before they take the lock
	lastStep     time.Time         // the latest time of a step, by the corrected clock
}

// entry is a group of a Store.
type entry struct {
	engine.Group
	cacheEntry *store.Entry[*entry]
	turn       *turn // nil while nothing is pending
	heapIndex  int   // index in the turn
	due        int64 // time of the first due write, in microseconds of Unix time
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Queue = (*Store)(nil)
)

// New returns an empty Store.
func New(o Options) *Store {
	s := &Store{
		opts:         o,
		steps:        store.NewStepIDs(),
		groups:       store.NewFairLRU[*entry](o.Bytes),
		pending:      pendingQueues{turns: map[string]*turn{}},
		bucketStates: store.NewFairLRU[engine.BucketState](maxBucketStates),
		buckets:      store.NewBoundedSet(o.Bounds.MaxBuckets),
	}
	s.bucketStates.OnRemove = s.buckets.Remove
	return s
}

// ID distinguishes the Store from those of other processes.
func (s *Store) ID() string { return hex.EncodeToString(s.steps.Process[:4]) }

// Decide implements store.Store.
func (s *Store) Decide(_ context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.stepTime(now)
	d, err := s.decide(now, &w, &l)
	if err != nil {
		return store.Decision{}, err
	}
	if d.Verdict == store.Drop && d.RefusedBy != &l.SpamFilter {
		drops := engine.NewDrops(now, w, &l, d.RefusedBy, d.Occurrences)
		s.addDrops(now, w.Namespace, engine.NoticeKey(d.RefusedBy), &drops)
	}
	s.order = max(s.order+1, now.UnixMicro())
	d.Order = s.order
	return d, nil
}

// stepTime returns the time of a step. If the clock has gone back, it corrects groups with pending writes, as these might
// be due much too late. Other groups are corrected when they are used.
func (s *Store) stepTime(now time.Time) time.Time {
	now = now.Truncate(time.Microsecond)
	ahead := s.lastStep.Sub(now)
	if ahead > engine.MaxSkew {
		s.order = now.UnixMicro()
		for _, e := range s.pending.all() {
			e.CorrectTimes(now)
			s.updateAccounting(e)
		}
	}
	if ahead < 0 || ahead > engine.MaxSkew {
		s.lastStep = now
	}
	return now
}

// acquire finds or adds a group, and pins it until updateAccounting. It reserves the bytes
// that the step may add for a namespace.
func (s *Store) acquire(now time.Time, namespace string, key store.Key) (e *entry, known bool, err error) {
	e = s.lookup(now, key)
	if known = e != nil; known {
		s.groups.Pin(e.cacheEntry)
	}
	if err := s.reserveBytes(namespace); err != nil {
		if known {
			s.updateAccounting(e)
		}
		return nil, known, err
	}
	if !known {
		e = s.create(namespace, key)
	}
	return e, known, nil
}

// reserveBytes makes space for the bytes of one step of a namespace.
func (s *Store) reserveBytes(namespace string) error {
	if !s.groups.CanPin(namespace, stepBytes) {
		return fmt.Errorf("%w of namespace %q", store.ErrFull, namespace)
	}
	s.groups.Shrink(stepBytes)
	return nil
}

func (s *Store) create(namespace string, key store.Key) *entry {
	e := &entry{}
	e.cacheEntry = s.groups.Add(key, namespace, e)
	return e
}

// lookup finds a group, and removes it if it has expired. Other expired groups stay until their bytes are needed.
func (s *Store) lookup(now time.Time, key store.Key) *entry {
	e := s.groups.Get(key)
	if e == nil {
		return nil
	}
	if e.Value.Expired(now) {
		s.groups.Remove(e)
		return nil
	}
	return e.Value
}

// updateAccounting updates the number of bytes and the pending queues for e.
func (s *Store) updateAccounting(e *entry) {
	if s.opts.NoSettler {
		e.DiscardPending()
	}
	if due := e.Due(); e.turn != nil || !due.IsZero() {
		s.pending.update(e, due)
	}
	s.groups.Update(e.cacheEntry, e.Size(), e.turn != nil)
	s.groups.SetExpiry(e.cacheEntry, e.ExpiresAt())
}

// ReportDrops adds drops of Events of a namespace to the notice of a register. It returns store.ErrFull
// if they do not fit.
func (s *Store) ReportDrops(now time.Time, namespace string, register store.Key, d *engine.Drops) error {
	if d.IsEmpty() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.stepTime(now)
	if d.Total <= 0 {
		s.addSinkLoss(now, register, d)
		return nil
	}
	if _, _, err := s.acquire(now, namespace, register); err != nil {
		return err
	}
	s.addDrops(now, namespace, register, d)
	return nil
}

// addDrops adds drops to the notice of a register. The caller has reserved the bytes.
func (s *Store) addDrops(now time.Time, namespace string, register store.Key, d *engine.Drops) {
	if d.Total <= 0 {
		return
	}
	e := s.lookup(now, register)
	if e == nil && d.IsCounted() && s.full(now, namespace) {
		register, _ = d.Overflow()
		e = s.lookup(now, register)
	}
	if e == nil {
		e = s.create(namespace, register)
	}
	e.AddDrops(now, s.steps.Next(), d)
	s.updateAccounting(e)
}

// Claim implements store.Queue. It holds the lock while it calls claimed, which must not call the Store.
func (s *Store) Claim(_ context.Context, now time.Time, ahead time.Duration, n int, claimed func(turn string, group store.Key) bool) ([]store.PendingWrite, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stepTime(now)
	by := engine.DueBy(now, ahead)
	due, putBack := s.pending.takeDue(by.UnixMicro())
	defer putBack()
	var writes []store.PendingWrite
	for _, d := range s.turns.Pick(due, n, claimed) {
		if e := s.groups.Get(d.Group); e != nil {
			writes = append(writes, e.Value.Claim(d.Group, by)...)
		}
	}
	return writes, nil
}

// Complete implements store.Queue. It ignores a write of a group that no longer exists.
func (s *Store) Complete(_ context.Context, now time.Time, p store.PendingWrite, o store.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.stepTime(now)
	e := s.lookup(now, p.Ref.Group)
	if e == nil {
		return nil
	}
	e.Complete(now, s.steps.Next(), &p, o)
	s.updateAccounting(e)
	s.groups.Shrink(0)
	return nil
}

// Pending implements store.Queue.
func (s *Store) Pending(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.pending.count), nil
}

// Peek returns copies of groups and of the buckets of quotas. It marks these buckets as used, and changes nothing
// else. Each group is consistent, as Peek holds the lock for one at a time. The Store
// has no clock: Snapshot.At is the time of the latest step.
func (s *Store) Peek(_ context.Context, groups, buckets []store.Key) (engine.Snapshot, error) {
	st := engine.Snapshot{Groups: map[store.Key]*engine.Group{}, Buckets: map[store.Key]engine.BucketState{}}
	for _, key := range groups {
		s.peekGroup(key, &st)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range buckets {
		if v := s.bucketState(key); v != (engine.BucketState{}) {
			st.Buckets[key] = v
		}
	}
	st.At = s.lastStep
	return st, nil
}

func (s *Store) peekGroup(key store.Key, st *engine.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.groups.Get(key); e != nil && !e.Value.Expired(s.lastStep) {
		st.Groups[key] = e.Value.Clone()
	}
}
