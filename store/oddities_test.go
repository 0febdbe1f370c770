package store_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/storetest"
)

// What a comparison is worth: each of these slips is found.
func TestComparisonsFindSmallDifferences(t *testing.T) {
	tests := []struct {
		says string
		odd
	}{
		{"a next token comes a microsecond late", odd{decided: func(d *store.Decision) {
			if !d.Next.IsZero() {
				d.Next = d.Next.Add(time.Microsecond)
			}
		}}},
		{"an empty bucket is called by another's name", odd{decided: func(d *store.Decision) {
			if d.Empty.Name == "two" {
				d.Empty.Name = "one"
			}
		}}},
		{"totals end at 9", odd{decided: func(d *store.Decision) { d.Total = min(d.Total, 9) }}},
		{"a merge costs nothing", odd{terms: func(tm *store.Terms) { tm.ChargeMerged = false }}},
		{"a shared spam bucket is one for each source and object", odd{terms: func(tm *store.Terms) { tm.SharedSpam = false }}},
		{"a flush interval is cut to microseconds", odd{terms: func(tm *store.Terms) {
			tm.FlushInterval = tm.FlushInterval.Truncate(time.Microsecond)
		}}},
		{"a repeat window is a microsecond too long", odd{terms: func(tm *store.Terms) {
			tm.RepeatWindow = min(tm.RepeatWindow, time.Hour*1000) + time.Microsecond
		}}},
		{"a window is a microsecond too long", odd{terms: func(tm *store.Terms) {
			tm.Window = min(tm.Window, time.Hour*1000) + time.Microsecond
		}}},
		{"the second quota is not asked", odd{terms: func(tm *store.Terms) { tm.Quotas = tm.Quotas[:min(1, len(tm.Quotas))] }}},
		{"the same UPDATE again is taken for another", odd{write: func(w *store.Write) {
			if w.Update != nil {
				w.Update.Same = store.Key{}
			}
		}}},
		{"a count that was overwritten is not made good", odd{write: func(w *store.Write) {
			if w.Update != nil {
				w.Update.OldOverwritten = false
			}
		}}},
		{"the newest occurrence is told in milliseconds", odd{write: func(w *store.Write) { w.At = w.At.Truncate(time.Millisecond) }}},
		{"a series is an Event without", odd{write: func(w *store.Write) { w.Series = false }}},
		{"debts fall due a microsecond late", odd{clock: func(now time.Time) time.Time { return now.Add(-time.Microsecond) }}},
		{"the least overdue debts come first", odd{debts: func(d []store.Debt, n int) []store.Debt { return d[max(0, len(d)-n):] }}},
		{"the oldest message of an aggregate comes first", odd{debts: func(d []store.Debt, n int) []store.Debt {
			for i := range d {
				slices.Reverse(d[i].Messages)
			}
			return d[:min(n, len(d))]
		}}},
		{"an Event that refuses its count is told of again", odd{outcome: func(_ store.Debt, o store.Outcome) store.Outcome {
			if o == store.Refused {
				return store.Told
			}
			return o
		}}},
		{"a notice that is gone is not created anew", odd{outcome: func(d store.Debt, o store.Outcome) store.Outcome {
			if d.Notice != nil && d.Notice.Written && o == store.Gone {
				return store.Refused
			}
			return o
		}}},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			const most = 100
			for seed := range uint64(most) {
				steps := storetest.RandomSteps(seed, *steps)
				found := storetest.Difference(t, steps, newMemory, func(t *testing.T) storetest.Subject {
					t.Helper()
					o := test.odd
					o.Subject = newMemory(t)
					return o
				})
				if found != "" {
					t.Logf("by seed %d:\n%s", seed, found)
					return
				}
			}
			t.Errorf("not found in %d runs", most)
		})
	}
}

// backwards is a store that hands out the least overdue debts first, and
// at one moment still all that there are.
type backwards struct {
	storetest.Subject
	at   time.Time
	left []store.Debt
}

func (b *backwards) Due(ctx context.Context, now time.Time, ahead time.Duration, n int) ([]store.Debt, error) {
	if !now.Equal(b.at) {
		b.at, b.left = now, nil
	}
	debts, err := b.Subject.Due(ctx, now, ahead, math.MaxInt)
	b.left = append(b.left, debts...)
	some := max(0, len(b.left)-n)
	last := b.left[some:]
	b.left = b.left[:some:some]
	return last, err
}

func TestComparisonsMindTheOrderOfDebts(t *testing.T) {
	for seed := range uint64(20) {
		said := storetest.Difference(t, storetest.RandomSteps(seed, *steps), newMemory, func(t *testing.T) storetest.Subject {
			t.Helper()
			return &backwards{Subject: newMemory(t)}
		})
		if strings.Contains(said, "the most overdue of all do not come first") {
			return
		}
	}
	t.Error("debts in the wrong order were taken for ties")
}
