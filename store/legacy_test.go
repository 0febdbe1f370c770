package store_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// heirs are two stores that know of the same Events, and a moment.
type heirs struct {
	t             *testing.T
	shared, local *store.Memory
	now           time.Time
	empty         bool // there are no tokens
	last          store.Legacy
}

func newHeirs(t *testing.T) *heirs {
	t.Helper()
	return &heirs{
		t: t, shared: newMemory(t).(*store.Memory), local: newMemory(t).(*store.Memory),
		now: time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC),
	}
}

// create sends a CREATE through both phases of a store.
func (h *heirs) create(s *store.Memory, name string, count int64) string {
	h.t.Helper()
	w := store.Write{
		Group: store.KeyOf("pod"), Exact: store.KeyOf("exact"), Similar: store.KeyOf("similar"), Message: store.KeyOf("m"),
		Namespace: "default", Name: name, Count: count, Reason: "Failed",
	}
	t := store.Terms{MaxEvents: 10, Window: time.Hour, RepeatWindow: time.Hour, FlushInterval: time.Second}
	if !h.empty {
		t.Spam.Limit = store.Limit{Burst: 9, Every: time.Hour}
	}
	d, err := s.Merge(h.t.Context(), h.now, w, t)
	if err == nil && d.Verdict == store.Admit {
		d, err = s.Take(h.t.Context(), h.now, w, t)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return fmt.Sprint(d.Verdict, " ", d.Total)
}

// handOver hands all over that local knows, several times.
func (h *heirs) handOver(times int) {
	h.t.Helper()
	h.now = h.now.Add(time.Minute)
	l, ok := h.local.Release(h.now, store.KeyOf("pod"))
	if !ok {
		h.t.Fatal("nothing to hand over")
	}
	h.last = l
	for range times {
		if err := h.shared.Inherit(h.t.Context(), h.now, l); err != nil {
			h.t.Fatal(err)
		}
	}
}

// owed says what s owes, notices without their names, and settles it.
func (h *heirs) owed(s *store.Memory) string {
	h.t.Helper()
	debts, err := s.Due(h.t.Context(), h.now, math.MaxInt64, math.MaxInt)
	if err != nil {
		h.t.Fatal(err)
	}
	var said []string
	for _, d := range debts {
		name := d.Name
		if d.Notice != nil {
			name = "notice"
		}
		said = append(said, fmt.Sprint(name, " ", d.Total))
		if err := s.Settle(h.t.Context(), h.now, d, store.Told); err != nil {
			h.t.Fatal(err)
		}
	}
	slices.Sort(said)
	return fmt.Sprint(said)
}

func TestInherit(t *testing.T) {
	tests := map[string]func(h *heirs) string{
		"an Event that is not known is taken over [a 3]": func(h *heirs) string {
			h.t.Helper()
			h.create(h.local, "a", 1)
			h.create(h.local, "b", 2)
			h.handOver(1)
			return h.owed(h.shared)
		},
		"the same Legacy again changes nothing [a 3]": func(h *heirs) string {
			h.t.Helper()
			h.create(h.local, "a", 1)
			h.create(h.local, "b", 2)
			h.handOver(3)
			return h.owed(h.shared)
		},
		"the same Legacy again changes nothing, long after its notice was told [notice 1]": func(h *heirs) string {
			h.t.Helper()
			h.empty = true
			h.create(h.local, "a", 1)
			h.owed(h.local)
			h.handOver(1)
			h.owed(h.shared)
			h.now = h.now.Add(59*time.Minute + 30*time.Second) // a window after its first drop
			h.create(h.shared, "b", 1)
			if err := h.shared.Inherit(h.t.Context(), h.now, h.last); err != nil {
				return err.Error()
			}
			return h.owed(h.shared)
		},
		"notices of two stores never share a name false": func(h *heirs) string {
			h.t.Helper()
			h.empty = true
			if _, err := store.NewFallback(h.shared, h.local, store.DefaultFallbackOptions()); err != nil {
				return err.Error()
			}
			var names []string
			for _, s := range []*store.Memory{h.shared, h.local} {
				h.create(s, "a", 1)
				debts, err := s.Due(h.t.Context(), h.now, time.Hour, 1)
				if err != nil || len(debts) != 1 {
					return fmt.Sprint(debts, err)
				}
				names = append(names, debts[0].Name)
			}
			return fmt.Sprint(names[0] == names[1])
		},
		"nothing is known any more where it was [] false": func(h *heirs) string {
			h.t.Helper()
			h.create(h.local, "a", 1)
			h.create(h.local, "b", 2)
			h.handOver(1)
			_, ok := h.local.Release(h.now, store.KeyOf("pod"))
			return fmt.Sprint(h.owed(h.local), " ", ok)
		},
		"what both were told under a name counts once [a 4 c 3]": func(h *heirs) string {
			h.t.Helper()
			h.create(h.shared, "a", 1)
			h.create(h.shared, "b", 3) // into a
			h.create(h.local, "c", 1)
			h.create(h.local, "b", 5) // into c
			h.handOver(1)
			return h.owed(h.shared)
		},
		"what was merged here and stored there is told there at least [a 3 b 1]": func(h *heirs) string {
			h.t.Helper()
			h.create(h.shared, "a", 1)
			h.create(h.shared, "b", 3)
			h.create(h.local, "b", 3)
			h.handOver(1)
			return h.owed(h.shared)
		},
		"a notice is taken over, less what was told [a 4 notice 2]": func(h *heirs) string {
			h.t.Helper()
			h.create(h.shared, "a", 1)
			h.create(h.shared, "b", 3)
			h.empty = true
			h.create(h.local, "b", 5)
			h.handOver(1)
			return h.owed(h.shared)
		},
		// It cannot be less: a notice that is stored tells of one at least.
		"a lost answer to a drop that both have told of by then is told twice [notice 1 notice 1]": func(h *heirs) string {
			h.t.Helper()
			h.empty = true
			h.create(h.shared, "a", 1)
			h.create(h.local, "a", 1)
			h.owed(h.local)
			said := h.owed(h.shared)
			h.handOver(1)
			return said[:len(said)-1] + " " + h.owed(h.shared)[1:]
		},
		"a lost answer to a drop is told once while one of them has not been told [notice 1]": func(h *heirs) string {
			h.t.Helper()
			h.empty = true
			h.create(h.shared, "a", 1)
			h.create(h.local, "a", 1)
			h.handOver(1)
			return h.owed(h.shared)
		},
	}
	for says, test := range tests {
		t.Run(says, func(t *testing.T) {
			if got := test(newHeirs(t)); len(says) < len(got) || says[len(says)-len(got):] != got {
				t.Errorf("%s", got)
			}
		})
	}
}

func TestNothingIsReleasedThatASettlerIsAt(t *testing.T) {
	h := newHeirs(t)
	h.create(h.local, "a", 1)
	h.create(h.local, "b", 1)
	debts, err := h.local.Due(t.Context(), h.now, time.Hour, 9)
	if err != nil || len(debts) != 1 {
		t.Fatalf("debts %v, %v; want one", debts, err)
	}
	if _, ok := h.local.Release(h.now, store.KeyOf("pod")); ok {
		t.Error("released while a settler was writing")
	}
	if err := h.local.Settle(t.Context(), h.now, debts[0], store.Told); err != nil {
		t.Fatal(err)
	}
	if _, ok := h.local.Release(h.now, store.KeyOf("pod")); !ok {
		t.Error("not released after the settler was done")
	}
}
