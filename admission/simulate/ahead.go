package simulate

import (
	"context"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
)

const (
	// aheadWrites is how many writes go from hand to hand at a time, and
	// aheadGroups how many times that is in memory.
	aheadWrites = 256
	aheadGroups = 4
)

// ahead is writes that follow each other, with room for their Events.
type ahead struct {
	writes []write
	events []corev1.Event
}

// readAhead gives each write of a trace to do, in order, and reads the next ones
// meanwhile. What do is given is overwritten later.
func readAhead(ctx context.Context, t *Trace, b Bound, do func(*write) error) error {
	full, free := make(chan *ahead, aheadGroups), make(chan *ahead, aheadGroups) // each has room for all
	for range aheadGroups {
		free <- &ahead{events: make([]corev1.Event, aheadWrites)}
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		defer close(full)
		return fillAll(ctx, replay{cursor: t.cursor(spoolBuffer), repeats: t.cursor(spoolGlance), bound: b}, free, full)
	})
	parts.Go(func() error {
		for group := range full {
			if err := group.each(do); err != nil {
				return err
			}
			free <- group
		}
		return ctx.Err()
	})
	return parts.Wait()
}

// fillAll fills what is free with all writes of a replay.
func fillAll(ctx context.Context, r replay, free <-chan *ahead, full chan<- *ahead) error {
	for more := true; more; {
		select {
		case group := <-free:
			var err error
			if more, err = group.fill(&r); err != nil {
				return err
			}
			full <- group
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (a *ahead) each(do func(*write) error) error {
	for i := range a.writes {
		if err := do(&a.writes[i]); err != nil {
			return err
		}
	}
	return nil
}

// fill takes in the next writes, and tells whether there may be more.
func (a *ahead) fill(r *replay) (more bool, err error) {
	a.writes = a.writes[:0]
	for i := range a.events {
		w := write{event: &a.events[i]}
		more, err := r.write(&w)
		if !more || err != nil {
			return more, err
		}
		a.writes = append(a.writes, w)
	}
	return true, nil
}
