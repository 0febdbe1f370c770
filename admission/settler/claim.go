package settler

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/eventquota/eventquota/store"
)

// maxGroups bounds the groups that are claimed at the same time. More wait in the store. A namespace may
// have no more of them than are left for all others.
const maxGroups = 512

// held is what is claimed of one group, in the order in which it is written.
type held struct {
	namespace string
	writes    []*write
}

// claiming bounds one claim: no group that is held, and of no namespace more than are left. A group that was held when
// it began counts as held throughout, as the store may have looked at it before its last write was completed.
type claiming struct {
	held    map[store.Key]bool
	offered map[store.Key]string // namespaces
	shares  map[string]int
}

// passes reports whether the store must skip a group.
func (c *claiming) passes(namespace string, group store.Key) bool {
	if c.held[group] {
		return true
	}
	if _, again := c.offered[group]; again {
		return false
	}
	if c.shares[namespace] >= maxGroups-len(c.held)-len(c.offered) {
		return true
	}
	c.offered[group] = namespace
	c.shares[namespace]++
	return false
}

// claim claims what falls due within ahead, and returns how many writes are claimed then; at least
// 1 when the store did not return all.
func (s *Settler) claim(ctx context.Context, ahead time.Duration) int {
	c := s.claiming()
	if len(c.held) == maxGroups || !s.opts.Available() {
		return s.inHand() + 1
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	writes, err := s.pending.Claim(ctx, time.Now(), ahead, maxGroups-len(c.held), c.passes)
	s.hold(c, writes)
	if err != nil {
		s.complain.Do(func() { logr.FromContextOrDiscard(ctx).Error(err, "Store did not return all pending writes") })
		return s.inHand() + 1
	}
	return s.inHand()
}

func (s *Settler) claiming() *claiming {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := claiming{held: map[store.Key]bool{}, offered: map[store.Key]string{}, shares: map[string]int{}}
	for group, h := range s.held {
		c.held[group] = true
		c.shares[h.namespace]++
	}
	return &c
}

// hold queues claimed writes.
func (s *Settler) hold(c *claiming, writes []store.PendingWrite) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := s.api.answers.Load()
	for _, p := range writes {
		group := p.Ref.Group
		if c.held[group] {
			continue
		}
		h := s.held[group]
		if h == nil {
			namespace, asked := c.offered[group]
			if !asked {
				namespace = p.Namespace
			}
			h = &held{namespace: namespace}
			s.held[group] = h
			s.line.Add(item{namespace, group})
		}
		w := &write{PendingWrite: p, storeID: s.opts.StoreID, noted: p.Noted, answers: answers}
		if p.Name == "" { // no Event took the place of one that was not found
			w.outcome = &store.Outcome{Result: store.NotFound}
		}
		h.writes = append(h.writes, w)
	}
}

// next is the write of a group to work on.
func (s *Settler) next(group store.Key) *write {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[group].writes[0]
}

// release removes the write of a group that was worked on, and reports whether there are more.
func (s *Settler) release(group store.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[group]
	h.writes = h.writes[1:]
	if len(h.writes) == 0 {
		delete(s.held, group)
	}
	return len(h.writes) > 0
}

// inHand is how many writes are claimed.
func (s *Settler) inHand() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, h := range s.held {
		n += len(h.writes)
	}
	return n
}
