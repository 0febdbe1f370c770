package settler

import (
	"context"
	"maps"
	"time"

	"github.com/go-logr/logr"

	"github.com/eventquota/eventquota/store"
)

// maxGroups bounds the groups that are claimed at the same time. More wait in the store, which gives namespaces their
// turns. A namespace may have no more of them than are left for all others, so that none waits long for another's storm.
const maxGroups = 128

// group is what is claimed of one group of the store, in the order in which it is written. One worker at a time works on it.
type group struct {
	key       store.Key
	namespace string
	writes    []*write
}

// claiming bounds one claim: no group that is held, and of no namespace more than are left. A group that was held when
// it began counts as held throughout, as the store may have looked at it before its last write was completed.
type claiming struct {
	held    map[store.Key]*group
	offered map[store.Key]string // namespaces
	shares  map[string]int
}

// passes reports whether the store must skip a group.
func (c *claiming) passes(namespace string, key store.Key) bool {
	if c.held[key] != nil {
		return true
	}
	if _, again := c.offered[key]; again {
		return false
	}
	if c.shares[namespace] >= maxGroups-len(c.held)-len(c.offered) {
		return true
	}
	c.offered[key] = namespace
	c.shares[namespace]++
	return false
}

// claim claims what falls due within ahead, and returns how many groups are claimed then; one more
// when the store did not return all.
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
	c := &claiming{held: maps.Clone(s.held), offered: map[store.Key]string{}, shares: map[string]int{}}
	for _, g := range c.held {
		c.shares[g.namespace]++
	}
	return c
}

// hold queues claimed writes, the most overdue first.
func (s *Settler) hold(c *claiming, writes []store.PendingWrite) {
	var claimed []*group
	answers := s.answers.Load()
	s.mu.Lock()
	for _, p := range writes {
		key := p.Ref.Group
		if c.held[key] != nil {
			continue
		}
		g := s.held[key]
		if g == nil {
			g = &group{key: key, namespace: c.offered[key]}
			s.held[key] = g
			claimed = append(claimed, g)
		}
		w := &write{PendingWrite: p, storeID: s.opts.StoreID, noted: p.Noted, answers: answers}
		if p.Name == "" { // no Event took the place of one that was not found
			w.outcome = &store.Outcome{Result: store.NotFound}
		}
		g.writes = append(g.writes, w)
	}
	s.mu.Unlock()
	for _, g := range claimed { // from here on its worker has it
		s.line.Add(g)
	}
}

// release removes the write of a group that was worked on, and reports whether there are more.
func (s *Settler) release(g *group) bool {
	if g.writes = g.writes[1:]; len(g.writes) > 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, g.key)
	return false
}

// inHand is how many groups are claimed.
func (s *Settler) inHand() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}
