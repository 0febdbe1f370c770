package memory

import (
	"context"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// Claim implements store.Queue.
func (s *Store) Claim(_ context.Context, now time.Time, ahead time.Duration, n int, claimed func(namespace string, group store.Key) bool) ([]store.PendingWrite, error) {
	by := rules.By(now, ahead)
	picked := s.turns.Pick(s.due(by), n, claimed)
	s.mu.Lock()
	defer s.mu.Unlock()
	var writes []store.PendingWrite
	for _, d := range picked {
		if place := s.groups.Get(d.Group); place != nil {
			writes = append(writes, place.Value.Claim(d.Group, by)...)
		}
	}
	return writes, nil
}

// due are the groups of which something falls due by a moment, in any order.
func (s *Store) due(by time.Time) []rules.DueGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []rules.DueGroup
	for e := range s.pending {
		if !e.due.After(by) {
			due = append(due, rules.DueGroup{Group: e.place.Key, Namespace: e.Namespace, Due: e.due.UnixMicro()})
		}
	}
	return due
}

// Complete implements store.Queue. A write of a group that is not known any more is ignored.
func (s *Store) Complete(_ context.Context, now time.Time, p store.PendingWrite, o store.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.at(now)
	e, ok := s.known(now, p.Ref.Group)
	if !ok {
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
	return int64(len(s.pending)), nil
}
