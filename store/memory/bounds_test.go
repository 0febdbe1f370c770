package memory

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

func TestAccountingMatchesContents(t *testing.T) {
	h := newAttacker(t, MinBytes)
	rng, full := h.rng, 0
	for i := range 30_000 {
		a := attack{group: rng.IntN(5) == 0, namespace: rng.IntN(9) == 0, name: true, message: rng.IntN(3) == 0, reason: rng.IntN(2) == 0, spam: rng.IntN(9) == 0}
		if !h.create(a) {
			full++
		}
		h.now = h.now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond * time.Duration(rng.IntN(100)/99))
		if rng.IntN(10_000) == 0 {
			h.settle(rng.IntN(500), 0, h.anyResult)
		}
		if i%500 == 0 {
			h.checkAccounting()
		}
		if h.groups.Size() > MinBytes {
			t.Fatalf("%d bytes are kept, want %d at most", h.groups.Size(), MinBytes)
		}
	}
	if full == 0 {
		t.Error("the store was never full")
	}
}

func TestStoreIsFullOnlyOfPendingWrites(t *testing.T) {
	h := newAttacker(t, MinBytes)
	for range 5000 {
		if !h.create(attack{group: true}) {
			t.Fatal("full although nothing is pending")
		}
	}
	for place := true; place; {
		w, l := h.write(attack{group: true})
		for _, name := range []string{"a", "b"} { // b merges into a, so something is pending
			w.Name = name
			place = place && h.send(w, l)
		}
	}
	known, l := h.write(attack{group: true})
	known.GroupKey = h.claim(1, time.Hour)[0].Ref.Group
	for i := 0; i < 200 && h.send(known, l); i++ { // takes the place of the last one, if nothing of that is pending
		known.Name = fmt.Sprint("more-", i)
	}
	if h.groups.CanPin("production", 2*stepBytes) || h.groups.Size() > MinBytes {
		t.Errorf("full although %d groups are pending of %d, in %d bytes", h.pending.count, h.groups.Len(), h.groups.Size())
	}
	update := known
	update.Update = &store.Update{Stored: store.Stored{Count: 1}}
	if h.send(known, l) || h.send(update, l) {
		t.Error("a write of a known group has a place although none is left")
	}
	h.checkAccounting()
	h.settle(50, time.Hour, written)
	if !h.create(attack{group: true}) {
		t.Error("still full although nothing is pending of some groups any more")
	}
	h.checkAccounting()
}

// The heap may hold a quarter more than the bound: maps and slices grow ahead.
func TestSizeEstimateMatchesHeap(t *testing.T) {
	tests := []struct {
		says string
		attack
		text string // instead of the message
		drop bool
	}{
		{"groups", attack{group: true, name: true}, "", false},
		{"namespaces", attack{group: true, namespace: true, name: true}, "", false},
		{"names", attack{name: true}, "", false},
		{"messages", attack{name: true, message: true}, "", false},
		{"reasons", attack{name: true, message: true, reason: true}, "", false},
		{"all", attack{name: true, message: true, reason: true, spam: true}, "", false},
		{"messages cut from long ones", attack{name: true, message: true}, strings.Repeat("0123456789abcdef", 256), false},
		{"drops of spam filters", attack{name: true, message: true, reason: true}, "", true},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			const bound = 2 << 20
			before := heapInUse()
			h := newAttacker(t, bound)
			for i := range 20_000 {
				w, l := h.write(test.attack)
				if l.Quotas = nil; test.text != "" {
					w.Text = (fmt.Sprint(h.n) + test.text)[:100]
				}
				if test.drop {
					l.SpamFilter.Burst, l.ReservePerReason = 0, 0
				}
				h.send(w, l) // full or not: the bound is what counts
				if w.Name += "-"; h.n%2 == 0 {
					h.send(w, l)
				}
				if i%100 == 0 {
					h.settle(50, time.Hour, h.anyResult)
				}
			}
			used := heapInUse() - before
			t.Logf("estimated %d, used %d", h.groups.Size(), used)
			if used > bound*5/4 {
				t.Errorf("%d bytes of heap in use, %.2f times the bound", used, float64(used)/bound)
			}
			if h.groups.Size() < bound*3/4 {
				t.Errorf("%d bytes are estimated: the store was not filled", h.groups.Size())
			}
			h.checkAccounting()
		})
	}
}

// A quota that refuses takes no place from others that are drained, nor do quotas of another namespace: writes
// elsewhere refill no bucket.
func TestEvictionRefillsNoDrainedQuota(t *testing.T) {
	for says, other := range map[string]func(w *store.Write, l *store.Limits){
		"refused":              func(_ *store.Write, l *store.Limits) { l.Quotas[0].Burst = 0 },
		"of another namespace": func(w *store.Write, _ *store.Limits) { w.Namespace = "noisy" },
	} {
		t.Run(says, func(t *testing.T) {
			h := newAttacker(t, MinBytes)
			drained := store.Bucket{Key: store.KeyOf("drained"), Name: "drained", Limit: store.Limit{Burst: 1, Every: 1000 * time.Hour}}
			w, l := h.write(attack{group: true})
			l.Quotas = []store.Bucket{drained}
			h.send(w, l)
			for range maxBucketStates * 9 / 8 {
				w, l := h.write(attack{group: true, name: true, quota: true})
				other(&w, &l)
				h.send(w, l)
			}
			if n := h.bucketStates.Len(); n > maxBucketStates {
				t.Errorf("%d quotas are kept, want %d at most", n, maxBucketStates)
			}
			w, l = h.write(attack{group: true})
			l.Quotas = []store.Bucket{drained}
			h.settle(1<<30, time.Hour, written)
			if d, err := h.Decide(t.Context(), h.now, w, l); err != nil || d.Verdict != store.Drop {
				t.Errorf("%v, %v from a drained quota, want a drop", d.Verdict, err)
			}
		})
	}
}

// Only the namespace whose pending writes fill its share is refused, and the error names it.
func TestErrFullNamesTheNamespace(t *testing.T) {
	h := newAttacker(t, MinBytes)
	var err error
	for i := 0; err == nil && i < MinBytes; i++ {
		w, l := h.write(attack{group: true})
		l.SpamFilter.Burst, l.ReservePerReason = 0, 0
		_, err = h.Decide(t.Context(), h.now, w, l)
	}
	if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), `namespace "production"`) {
		t.Errorf("%v, want that the store is full of pending writes of namespace production", err)
	}
	for range 100 {
		w, l := h.write(attack{group: true})
		w.Namespace, l.SpamFilter.Burst, l.ReservePerReason = "shop", 0, 0
		if d, err := h.Decide(t.Context(), h.now, w, l); err != nil || d.Verdict != store.Drop {
			t.Fatalf("%v, %v for another namespace, want a drop", d.Verdict, err)
		}
	}
	h.checkAccounting()
}

// A CREATE that a quota refuses at its first try costs the notice of that, whatever the number of objects.
func TestWideStormUnderQuotaMakesOneNotice(t *testing.T) {
	h := newAttacker(t, MinBytes)
	for range 20_000 {
		w, l := h.write(attack{group: true, name: true, message: true, reason: true})
		l.Quotas = []store.Bucket{{Key: store.KeyOf("quota"), Name: "quota"}}
		if d, err := h.Decide(t.Context(), h.now, w, l); err != nil || d.Verdict != store.Drop || d.Occurrences != 1 {
			t.Fatalf("%+v, %v; want a drop of one", d, err)
		}
	}
	if n, err := h.Pending(t.Context()); h.groups.Len() != 1 || n != 1 || err != nil {
		t.Errorf("%d groups are kept and %d are pending, %v; want one notice", h.groups.Len(), n, err)
	}
	if writes := h.claim(10, time.Hour); len(writes) != 1 || writes[0].Total != 20_000 || h.groups.Size() > 16<<10 {
		t.Errorf("%+v in %d bytes, want a notice of 20,000", writes, h.groups.Size())
	}
	h.checkAccounting()
}

// heapInUse is the heap after a garbage collection.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers freed
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func TestNoSettlerMeansNothingPending(t *testing.T) {
	s := New(Options{Bytes: MinBytes, NoSettler: true})
	h := newAttacker(t, MinBytes)
	h.Store = s
	for range 5000 {
		w, l := h.write(attack{group: true, name: true})
		l.SimilarThreshold = 1
		for range 2 {
			if w.Name += "-"; !h.send(w, l) {
				t.Fatal("full although nothing is pending")
			}
		}
	}
	if n, err := h.Pending(t.Context()); n != 0 || err != nil || len(h.claim(1000, 1000*time.Hour)) > 0 {
		t.Errorf("%d groups are pending, %v, want none", n, err)
	}
}

// TestQuotaRefusalsLeaveNoState has each refused Event be about another object.
func TestQuotaRefusalsLeaveNoState(t *testing.T) {
	for _, count := range []int64{1, 2, 3, math.MaxInt32} {
		for _, first := range []time.Duration{0, -time.Hour, -24 * time.Hour} {
			t.Run(fmt.Sprint("count ", count, ", began ", first), func(t *testing.T) {
				h := newAttacker(t, DefaultBytes)
				for range 2000 {
					w, l := h.write(attack{group: true, name: true})
					l.Quotas[0].Limit = store.Limit{Every: time.Hour}
					w.Count, w.FirstSeen = count, h.now.Add(first)
					h.send(w, l)
				}
				if n := h.groups.Len(); n != 1 { // the notice
					t.Errorf("%d registers after 2,000 refused Events, want one", n)
				}
				if all := h.claim(10, time.Hour); len(all) != 1 || all[0].Total != 2000 {
					t.Errorf("%+v, want a notice of 2,000", all)
				}
			})
		}
	}
}

// TestNamesRefusedByQuotaCountOnce has a recorder count by one, under a name that a quota refuses at first. In the end
// notices and the stored Event report what it has counted, whenever the register of its object came to be.
func TestNamesRefusedByQuotaCountOnce(t *testing.T) {
	const last = 9
	for known := range int64(last + 1) { // before which count another Event of the object is stored
		for passes := int64(1); passes <= last+1; passes++ { // the first count that is not refused
			h := newAttacker(t, DefaultBytes)
			w, l := h.write(attack{})
			w.Name, w.FirstSeen = "a", h.now
			empty := l
			empty.Quotas = slices.Clone(l.Quotas)
			empty.Quotas[0].Limit, empty.Quotas[0].Key = store.Limit{Every: time.Hour}, store.KeyOf("empty")
			stored := map[string]int64{}
			send := func(w store.Write, l store.Limits) {
				h.now = h.now.Add(time.Second)
				w.LastSeen = h.now
				d, err := h.Decide(t.Context(), h.now, w, l)
				if err != nil {
					t.Fatal(err)
				}
				if d.Verdict.Admits() {
					stored[w.Name] = w.Count
				}
			}
			for w.Count = 1; w.Count <= last; w.Count++ {
				if w.Count == known+1 {
					other := w
					other.Name, other.ExactKey, other.Count, other.FirstSeen = "other", store.KeyOf("other"), 1, h.now
					send(other, l)
				}
				limits := empty
				if w.Count >= passes {
					limits = l
				}
				again := w
				if stored["a"] > 0 {
					again.Update = &store.Update{ByRecorder: true, Stored: store.Stored{Count: stored["a"]}}
				}
				send(again, limits)
			}
			total := stored["a"] + stored["other"]
			for _, p := range h.claim(10, 24*time.Hour) {
				total += p.Total - p.Written
			}
			if want := int64(last) + stored["other"]; total != want {
				t.Errorf("register from %d on, refused up to %d: %d are reported, want %d", known, passes-1, total, want)
			}
		}
	}
}

// The names of refused Events are part of a register, 256 at most, so the bound of registers is one of names.
func TestRefusedNamesAreBoundedPerNamespace(t *testing.T) {
	const registers, objects, names = 3, 10, 400
	s := New(Options{Bytes: DefaultBytes, Bounds: store.Bounds{Buckets: 1, Registers: registers}})
	now, refused := time.Unix(1_900_000_000, 0), int64(0)
	for i := range objects * names {
		object := fmt.Sprint(i % objects)
		w := store.Write{GroupKey: store.KeyOf(object), Namespace: "shop", Name: fmt.Sprint("e", i), Count: 1, InvolvedObject: store.Object{Name: object}}
		l := store.Limits{Window: time.Hour, IdenticalWindow: time.Hour, SpamFilter: store.Bucket{
			Key: store.KeyOf("spam", object), LimitID: "spam", Name: "spam filter", Limit: store.Limit{Burst: 1, Every: 1000 * time.Hour},
		}}
		d, err := s.Decide(t.Context(), now, w, l)
		if err != nil {
			t.Fatal(err)
		}
		refused += d.Occurrences
	}
	known := 0
	for _, e := range s.groups.All() {
		known += len(e.Value.RefusedNames)
	}
	// One notice more, of the overflow bucket.
	if known != registers*256 || s.groups.Len() != registers+1 || refused != objects*names-registers-1 {
		t.Errorf("%d names in %d registers, %d refused", known, s.groups.Len(), refused)
	}
}
