package status

import (
	"context"
	"fmt"
	"time"

	"github.com/eventquota/eventquota/store/tally"
)

// bookTimeout bounds a look at the book, of all policies together.
const bookTimeout = 5 * time.Second

// Book is where all replicas count what policies decide.
type Book interface {
	// Read is that of tally.Book.
	Read(ctx context.Context, now time.Time, ids []tally.ID) (map[tally.ID]tally.Tally, error)
	// Restore is that of tally.Book.
	Restore(ctx context.Context, now time.Time, id tally.ID, since time.Time, total tally.Counts) error
}

var _ Book = tally.Book(nil)

// count reads what was counted: of all policies, or of those only of which
// nothing is known yet.
func (w *Writer) count(ctx context.Context, now time.Time, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, bookTimeout)
	defer cancel()
	asked := map[tally.ID]*record{}
	for _, r := range w.records {
		if id := r.id(); id != (tally.ID{}) && (all || r.tally == nil) {
			asked[id] = r
		}
	}
	lost, err := w.readTallies(ctx, now, asked)
	if err != nil || len(lost) == 0 {
		return err
	}
	// The book has forgotten these, or was lost.
	for _, r := range lost {
		r.restored = tally.ID{}
	}
	_, err = w.readTallies(ctx, now, lost)
	return err
}

// readTallies reads the tallies of records, each of which the book is told of
// first, and returns those that it knows less of than it was told.
func (w *Writer) readTallies(ctx context.Context, now time.Time, asked map[tally.ID]*record) (map[tally.ID]*record, error) {
	ids := make([]tally.ID, 0, len(asked))
	for id, r := range asked {
		if err := w.restore(ctx, now, r); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	known, err := w.book.Read(ctx, now, ids)
	if err != nil {
		return nil, fmt.Errorf("read what policies decided: %w", err)
	}
	lost := map[tally.ID]*record{}
	for id, r := range asked {
		t, ok := known[id]
		if ok {
			r.tally = &t
		}
		if !ok || t.Since.After(r.since) {
			lost[id] = r
		}
	}
	return lost, nil
}

// restore tells the book what the stored status says of the generation that
// governs, or that it is new.
func (w *Writer) restore(ctx context.Context, now time.Time, r *record) error {
	id := r.id()
	if r.restored == id {
		return nil
	}
	since, total := now.Truncate(time.Second), tally.Counts{}
	if goesOn(&r.stored, &r.report) {
		total = tally.Counts{Admitted: r.stored.Total.Admitted, Merged: r.stored.Total.Merged, Dropped: r.stored.Total.Dropped}
		if r.stored.Total.Since != nil {
			since = r.stored.Total.Since.Time
		}
	}
	if err := w.book.Restore(ctx, now, id, since, total); err != nil {
		return fmt.Errorf("restore what policies decided: %w", err)
	}
	r.restored, r.since = id, since
	return nil
}
