package store

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestMemoryKeepsItsBooks(t *testing.T) {
	h := newHostile(t, MinBytes)
	rng, full := h.rng, 0
	for i := range 60_000 {
		if !h.create(attack{rng.IntN(5) == 0, true, rng.IntN(3) == 0, rng.IntN(2) == 0, rng.IntN(9) == 0, false}) {
			full++
		}
		h.now = h.now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond * time.Duration(rng.IntN(100)/99))
		if rng.IntN(20_000) == 0 {
			h.settle(rng.IntN(500), 0, func() Outcome { return Outcome(rng.IntN(3)) })
		}
		if i%500 == 0 {
			h.check()
		}
	}
	if full == 0 {
		t.Error("the store was never full")
	}
}

func TestMemoryIsFullOnlyOfWhatIsOwed(t *testing.T) {
	h := newHostile(t, MinBytes)
	for range 20_000 {
		if !h.create(attack{group: true}) {
			t.Fatal("full although nothing is owed")
		}
	}
	room := true
	for room {
		w, tm := h.write(attack{group: true})
		for _, name := range []string{"a", "b"} { // b merges into a, so something is owed
			w.Name = name
			_, err := h.Merge(t.Context(), h.now, w, tm)
			room = room && err == nil
		}
	}
	if h.idle.Len() != 0 {
		t.Errorf("full although nothing is owed to %d of %d groups", h.idle.Len(), len(h.groups))
	}
	h.settle(5, time.Hour, func() Outcome { return Told })
	if !h.create(attack{group: true}) {
		t.Error("still full although some groups owe nothing any more")
	}
}

func TestMemoryForgetsAsMuchAsItMust(t *testing.T) {
	h := newHostile(t, MinBytes)
	for range 5000 {
		h.create(attack{group: true})
	}
	w, tm := h.write(attack{group: true})
	w.Reason = strings.Repeat("x", MinBytes/10)
	if _, err := h.Merge(t.Context(), h.now, w, tm); err != nil {
		t.Errorf("no room for one large Event although nothing is owed: %v", err)
	}
	h.check()
}

func TestGroupForgetsNothingThatIsOwed(t *testing.T) {
	h := newHostile(t, DefaultBytes)
	var merged int64
	for range maxRecords + 50 {
		w, tm := h.write(attack{message: true})
		w.Group, tm.MaxEvents = KeyOf("one"), 1000
		for i := range 2 {
			w.Name = fmt.Sprint(h.n, i)
			d, err := h.Merge(t.Context(), h.now, w, tm)
			if err != nil {
				t.Fatal(err)
			}
			if d.Verdict == Merge {
				merged++
			}
		}
	}
	if merged != maxRecords {
		t.Errorf("%d merged, want one into each of %d stored Events", merged, maxRecords)
	}
	debts, err := h.Due(t.Context(), h.now.Add(time.Minute), 0, 1000)
	if err != nil || len(debts) != maxRecords {
		t.Errorf("%d debts, %v; want %d", len(debts), err, maxRecords)
	}
}

// The heap may hold a quarter more than the bound: maps and slices grow ahead.
func TestMemoryIsWhatItSeemsToBe(t *testing.T) {
	tests := []struct {
		says string
		attack
		text string // instead of the message
	}{
		{"groups", attack{group: true, name: true}, ""},
		{"names", attack{name: true}, ""},
		{"messages", attack{name: true, message: true}, ""},
		{"reasons", attack{name: true, message: true, reason: true}, ""},
		{"all", attack{name: true, message: true, reason: true, spam: true}, ""},
		{"messages cut from long ones", attack{name: true, message: true}, strings.Repeat("0123456789abcdef", 256)},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			const bound = 2 << 20
			before := heapInUse()
			h := newHostile(t, bound)
			for i := range 50_000 {
				w, tm := h.write(test.attack)
				if tm.Quotas = nil; test.text != "" {
					w.Text = (fmt.Sprint(h.n) + test.text)[:100]
				}
				if d, err := h.Merge(t.Context(), h.now, w, tm); err == nil && d.Verdict != Merge {
					_, _ = h.Take(t.Context(), h.now, w, tm) // full or not: the bound is what counts
				}
				if i%100 == 0 {
					h.settle(50, time.Hour, func() Outcome { return Outcome(h.rng.IntN(3)) })
				}
			}
			used := heapInUse() - before
			t.Logf("estimated %d, used %d", h.bytes, used)
			if used > bound*5/4 {
				t.Errorf("%d bytes of heap in use, %.2f times the bound", used, float64(used)/bound)
			}
			if h.bytes < bound*3/4 {
				t.Errorf("%d bytes are estimated: the store was not filled", h.bytes)
			}
			h.check()
		})
	}
}

func TestQuotasAreBounded(t *testing.T) {
	before := heapInUse()
	h := newHostile(t, MinBytes)
	for range maxQuotas * 5 / 4 {
		h.create(attack{group: true, quota: true})
	}
	used := heapInUse() - before
	if h.quotas.Len() != maxQuotas {
		t.Errorf("%d quotas are kept, want %d", h.quotas.Len(), maxQuotas)
	}
	if bound := int64(20 << 20); used > bound {
		t.Errorf("%d bytes of heap in use, want %d at most", used, bound)
	}
	t.Logf("used %d", used)
	h.check()
}

// heapInUse is the heap after a garbage collection.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers freed
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// What one source and object may hold is bounded, whatever it sends.
func TestGroupIsBounded(t *testing.T) {
	h := newHostile(t, DefaultBytes)
	for i := range 20_000 {
		w, tm := h.write(attack{
			name: true, message: h.rng.IntN(3) > 0, reason: h.rng.IntN(2) > 0, spam: h.rng.IntN(9) == 0,
		})
		w.Group, w.Namespace = KeyOf("one"), "production"
		if h.rng.IntN(5) == 0 {
			w.Update = &Update{Recorder: true, OldCount: 1}
		}
		if d, err := h.Merge(t.Context(), h.now, w, tm); err != nil || d.Verdict != Merge {
			_, _ = h.Take(t.Context(), h.now, w, tm)
		}
		if i%1000 == 0 {
			h.settle(maxRecords/2, time.Hour, func() Outcome { return Outcome(h.rng.IntN(3)) })
			h.now = h.now.Add(11 * time.Minute)
		}
		checkGroup(t, h.groups[w.Group], tm)
	}
	h.check()
}

func TestNoticesThatWereToldAreForgotten(t *testing.T) {
	h := newHostile(t, DefaultBytes)
	for range 10 {
		w, tm := h.write(attack{name: true, message: true})
		w.Group, tm.Spam.Burst, tm.ReservePerReason = KeyOf("one"), 0, 0
		if d, err := h.Take(t.Context(), h.now, w, tm); err != nil || d.Verdict != Drop {
			t.Fatalf("%v, %v; want a drop", d.Verdict, err)
		}
		h.settle(10, time.Hour, func() Outcome { return Told })
		h.now = h.now.Add(tm.Window)
		if n := len(h.groups[w.Group].records); n != 1 {
			t.Fatalf("%d notices are kept, want the newest", n)
		}
	}
}

func checkGroup(t *testing.T, g *group, tm Terms) {
	t.Helper()
	within := func(what string, n, bound int) {
		t.Helper()
		if n > bound {
			t.Fatalf("%d %s, want %d at most", n, what, bound)
		}
	}
	within("names", len(g.names), maxNames)
	within("kinds of similar Events", len(g.similar), maxSimilar)
	within("spam buckets", len(g.buckets), maxBuckets)
	for _, s := range g.similar {
		within("messages of similar Events", len(s.locals), tm.MaxEvents-1)
	}
	for _, b := range g.buckets {
		within("reasons with a reserve", len(b.reserves), maxReasons)
	}
	events := 0
	for _, r := range g.records {
		within("messages of an aggregate", len(r.messages), tm.KeepMessages)
		if r.notice == nil {
			events++
			continue
		}
		within("reasons in a notice", len(r.notice.Reasons), maxReasons)
	}
	within("stored Events", events, maxRecords)
}
