package store_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/storetest"
)

// peekable is a store that can be looked into.
type peekable interface {
	storetest.Subject
	Peek(ctx context.Context, now time.Time, groups, shared []store.Key) (store.Peeked, error)
}

// watched is a store that is looked into before each call. It asks a copy
// of what it sees first, which must decide as the store does.
type watched struct {
	peekable

	t      *testing.T
	names  map[string]bool
	groups []store.Key
	looks  *int
}

// look looks at all that a write is decided by.
func (w *watched) look(now time.Time, e store.Write, t store.Terms) store.Peeked {
	w.t.Helper()
	shared := []store.Key{t.Spam.Key}
	for _, q := range t.Quotas {
		shared = append(shared, q.Key)
	}
	p, err := w.Peek(w.t.Context(), now, []store.Key{e.Group}, shared)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *watched) Merge(ctx context.Context, now time.Time, e store.Write, t store.Terms) (store.Decision, error) {
	return w.ask(now, e, t, func(s store.Store) (store.Decision, error) { return s.Merge(ctx, now, e, t) })
}

func (w *watched) Take(ctx context.Context, now time.Time, e store.Write, t store.Terms) (store.Decision, error) {
	return w.ask(now, e, t, func(s store.Store) (store.Decision, error) { return s.Take(ctx, now, e, t) })
}

// Due looks into all groups, long after some were written to.
func (w *watched) Due(ctx context.Context, now time.Time, ahead time.Duration, n int) ([]store.Debt, error) {
	if _, err := w.Peek(ctx, now, w.groups, nil); err != nil {
		w.t.Error(err)
	}
	return w.peekable.Due(ctx, now, ahead, n)
}

func (w *watched) ask(now time.Time, e store.Write, t store.Terms, ask func(store.Store) (store.Decision, error)) (store.Decision, error) {
	p := w.look(now, e, t)
	d, err := ask(w.peekable)
	name := e.Group.String() + e.Name
	if e.Update == nil {
		copied := sent(w.t, p)
		foreseen, failed := ask(copied.Memory())
		if w.names[name] { // the copy does not know what it told
			foreseen.Total = d.Total
		}
		foreseen.Order = d.Order // it does not know the steps before
		if diff := cmp.Diff(d, foreseen); diff != "" || failed != nil {
			w.t.Errorf("a copy foresees another decision on %s, %v (-decision +foreseen):\n%s", e.Name, failed, diff)
		}
	}
	w.names[name] = true
	if !slices.Contains(w.groups, e.Group) {
		w.groups = append(w.groups, e.Group)
	}
	*w.looks++
	return d, err
}

// sent holds that nothing of what is seen is lost on its way as JSON.
func sent(t *testing.T, p store.Peeked) store.Peeked {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back store.Peeked
	if err := json.Unmarshal(text, &back); err != nil || !cmp.Equal(p, back) {
		t.Errorf("%v, once sent (-before +after):\n%s", err, cmp.Diff(p, back))
	}
	return back
}

// TestPeekingChangesNothingAndForeseesAll drives a Memory and another store by the
// same random steps, of which the other one is looked into before each call. All
// answers and debts stay the same, and what is decided is what a copy foresaw.
func TestPeekingChangesNothingAndForeseesAll(t *testing.T) {
	on := standalone(t)
	for says, fresh := range map[string]func(*testing.T) storetest.Subject{"Memory": newMemory, "Redis": on.fresh} {
		t.Run(says, func(t *testing.T) {
			looks := 0
			storetest.Compare(t, storetest.Seeds{First: *firstSeed, Runs: (*runs + 39) / 40, Steps: *steps}, newMemory,
				func(t *testing.T) storetest.Subject {
					t.Helper()
					return &watched{peekable: fresh(t).(peekable), t: t, names: map[string]bool{}, looks: &looks}
				})
			if looks < *steps {
				t.Errorf("%d looks, too few to tell", looks)
			}
		})
	}
}
