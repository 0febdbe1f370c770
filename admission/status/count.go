package status

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// countsTimeout bounds a look at what replicas have counted.
const countsTimeout = 5 * time.Second

// Counts are what replicas have counted.
type Counts interface {
	// All are the snapshots of all replicas, as far as they are known.
	All(ctx context.Context) ([]busiest.Snapshot, error)
	// Save keeps sums, which are anything that is JSON, for the next leader, and Load reads into sums
	// what was saved last, if anything was.
	Save(ctx context.Context, sums any) error
	Load(ctx context.Context, sums any) error
}

// count adds up what replicas have counted since the last look.
func (w *Writer) count(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, countsTimeout)
	defer cancel()
	if w.sums == nil {
		if err := w.load(ctx); err != nil {
			return err
		}
	}
	snapshots, err := w.counts.All(ctx)
	if err != nil {
		return fmt.Errorf("read what policies decided: %w", err)
	}
	w.sums.add(now, snapshots)
	w.share(now) // what is saved has been restored
	if err := w.counts.Save(ctx, w.sums); err != nil {
		return fmt.Errorf("save what policies decided: %w", err)
	}
	return nil
}

// load goes on from what the last leader has saved.
func (w *Writer) load(ctx context.Context) error {
	s := &sums{Seen: map[string]seen{}, Policies: map[busiest.PolicyID]*sum{}}
	if err := w.counts.Load(ctx, s); err != nil {
		return fmt.Errorf("read what the last leader has saved: %w", err)
	}
	maps.DeleteFunc(s.Policies, func(_ busiest.PolicyID, p *sum) bool { return p == nil })
	if s.Seen == nil || s.Policies == nil { // nobody writes them so
		s = &sums{Seen: map[string]seen{}, Policies: map[busiest.PolicyID]*sum{}}
	}
	if s.At.IsZero() {
		for _, r := range w.records {
			if r.wrote.After(s.lost) {
				s.lost = r.wrote
			}
		}
	}
	w.sums = s
	return nil
}

// share hands the sums to the records.
func (w *Writer) share(now time.Time) {
	if w.sums == nil {
		return
	}
	for _, r := range w.records {
		id := r.id()
		if id == (busiest.PolicyID{}) {
			continue
		}
		r.sum = w.sums.of(now, id)
		r.sum.Wanted = now
		if !r.sum.Restored {
			var before *v1alpha1.Counts
			if goesOn(&r.stored, &r.report) {
				before = r.stored.Total
			}
			r.sum.restore(before)
		}
	}
}
