package redis

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// correctAfter is how far ahead a write may be due before it is looked at whether a clock of Redis that was ahead has said so.
const correctAfter = time.Minute

// correct looks at a part of what is due much later, the next one each time, and corrects what a clock that was ahead has left
// in it. So once the clock of Redis is right, also on another server, it delays nothing for longer than that takes.
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
			continue // as whoever decides on it says
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
