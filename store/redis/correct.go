package redis

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// correctAfter is how far in the future a write may be due before correct checks whether a clock of Redis was ahead.
const correctAfter = time.Minute

// correct checks the next part of the writes that are due much later, and corrects times from a clock that was ahead. So when the
// clock of Redis has been corrected, or another server has taken over, writes are late only until correct reaches them.
func (s *Store) correct(ctx context.Context) error {
	from := s.correctOffset.Load()
	later, err := s.page(ctx, correctAfter, math.MaxInt64, from, registersPerRead)
	if err != nil {
		return err
	}
	s.correctOffset.Store(from + registersPerRead)
	if !later.full {
		s.correctOffset.Store(0)
	}
	if len(later.due) == 0 {
		return nil
	}
	keys := make([]string, len(later.due))
	for i, d := range later.due {
		keys[i] = s.groupKey(d.Group)
	}
	now, values, err := s.peek(ctx, keys)
	if err != nil {
		return err
	}
	for i, d := range later.due {
		r, err := decode(values[i])
		if err != nil {
			continue // a decision on it reports that
		}
		due := r.group.Due()
		if r.group.CorrectTimes(now); r.group.Due().Equal(due) {
			continue
		}
		correct := func(g *engine.Group, now time.Time, _ store.Key) { g.CorrectTimes(now) }
		if err := s.change(ctx, d.Namespace(), d.Group, correct); err != nil && !errors.Is(err, store.ErrUnconfirmed) {
			return err
		}
	}
	return nil
}
