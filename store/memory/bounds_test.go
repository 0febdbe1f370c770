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
	a := newAttacker(t, MinBytes)
	rng, full := a.rng, 0
	for i := range 30_000 {
		vary := attack{group: rng.IntN(5) == 0, namespace: rng.IntN(9) == 0, name: true, message: rng.IntN(3) == 0, reason: rng.IntN(2) == 0, spam: rng.IntN(9) == 0}
		if !a.create(vary) {
			full++
		}
		a.now = a.now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond * time.Duration(rng.IntN(100)/99))
		if rng.IntN(10_000) == 0 {
			a.settle(rng.IntN(500), 0, a.anyResult)
		}
		if i%500 == 0 {
			a.checkAccounting()
		}
		if a.groups.Size() > MinBytes {
			t.Fatalf("%d bytes used, want at most %d", a.groups.Size(), MinBytes)
		}
	}
	if full == 0 {
		t.Error("the store was never full")
	}
}

func TestStoreIsFullOnlyOfPendingWrites(t *testing.T) {
	a := newAttacker(t, MinBytes)
	for range 5000 {
		if !a.create(attack{group: true}) {
			t.Fatal("full although no write is pending")
		}
	}
	for ok := true; ok; {
		w, l := a.write(attack{group: true})
		for _, name := range []string{"a", "b"} { // b merges into a, so a write is pending
			w.Name = name
			ok = ok && a.send(w, l)
		}
	}
	known, l := a.write(attack{group: true})
	known.GroupKey = a.claim(1, time.Hour)[0].Ref.Group
	for i := 0; i < 200 && a.send(known, l); i++ { // takes the bytes of the last group, if no write of it is pending
		known.Name = fmt.Sprint("more-", i)
	}
	if a.groups.CanPin("production", 2*stepBytes) || a.groups.Size() > MinBytes {
		t.Errorf("full although only %d of %d groups are pending, in %d bytes", a.pending.count, a.groups.Len(), a.groups.Size())
	}
	update := known
	update.Update = &store.Update{Stored: store.Stored{Count: 1}}
	if a.send(known, l) || a.send(update, l) {
		t.Error("a write of a known group was decided although the store is full")
	}
	a.checkAccounting()
	a.settle(50, time.Hour, written)
	if !a.create(attack{group: true}) {
		t.Error("still full after the writes of some groups were completed")
	}
	a.checkAccounting()
}

// TestSizeEstimateMatchesHeap allows the heap a quarter more than the bound, because maps and slices grow in advance.
func TestSizeEstimateMatchesHeap(t *testing.T) {
	tests := []struct {
		name string
		attack
		text string // the message, if it is not empty
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
		t.Run(test.name, func(t *testing.T) {
			const bound = 2 << 20
			before := heapInUse()
			a := newAttacker(t, bound)
			for i := range 20_000 {
				w, l := a.write(test.attack)
				if l.Quotas = nil; test.text != "" {
					w.Text = (fmt.Sprint(a.n) + test.text)[:100]
				}
				if test.drop {
					l.SpamFilter.Burst, l.ReservePerReason = 0, 0
				}
				a.send(w, l) // may fail with ErrFull; only the size matters
				if w.Name += "-"; a.n%2 == 0 {
					a.send(w, l)
				}
				if i%100 == 0 {
					a.settle(50, time.Hour, a.anyResult)
				}
			}
			used := heapInUse() - before
			t.Logf("estimated %d, used %d", a.groups.Size(), used)
			if used > bound*5/4 {
				t.Errorf("%d bytes of heap in use, %.2f times the bound", used, float64(used)/bound)
			}
			if a.groups.Size() < bound*3/4 {
				t.Errorf("only %d bytes estimated: the store was not filled", a.groups.Size())
			}
			a.checkAccounting()
		})
	}
}

// TestEvictionRefillsNoDrainedQuota checks that quotas that refuse, and quotas of another namespace, do not evict a drained
// quota. Writes elsewhere refill no bucket.
func TestEvictionRefillsNoDrainedQuota(t *testing.T) {
	for name, change := range map[string]func(w *store.Write, l *store.Limits){
		"refused":              func(_ *store.Write, l *store.Limits) { l.Quotas[0].Burst = 0 },
		"of another namespace": func(w *store.Write, _ *store.Limits) { w.Namespace = "noisy" },
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttacker(t, MinBytes)
			drained := store.Bucket{Key: store.KeyOf("drained"), Name: "drained", Limit: store.Limit{Burst: 1, Every: 1000 * time.Hour}}
			w, l := a.write(attack{group: true})
			l.Quotas = []store.Bucket{drained}
			a.send(w, l)
			for range maxBucketStates * 9 / 8 {
				w, l := a.write(attack{group: true, name: true, quota: true})
				change(&w, &l)
				a.send(w, l)
			}
			if n := a.bucketStates.Len(); n > maxBucketStates {
				t.Errorf("%d quotas have a state, want at most %d", n, maxBucketStates)
			}
			w, l = a.write(attack{group: true})
			l.Quotas = []store.Bucket{drained}
			a.settle(1<<30, time.Hour, written)
			if d, err := a.Decide(t.Context(), a.now, w, l); err != nil || d.Verdict != store.Drop {
				t.Errorf("a drained quota returned %v, %v, want a drop", d.Verdict, err)
			}
		})
	}
}

// TestErrFullNamesTheNamespace fills the share of one namespace. Only its writes are refused, and the error names it.
func TestErrFullNamesTheNamespace(t *testing.T) {
	a := newAttacker(t, MinBytes)
	var err error
	for i := 0; err == nil && i < MinBytes; i++ {
		w, l := a.write(attack{group: true})
		l.SpamFilter.Burst, l.ReservePerReason = 0, 0
		_, err = a.Decide(t.Context(), a.now, w, l)
	}
	if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), `namespace "production"`) {
		t.Errorf("%v, want ErrFull with namespace production", err)
	}
	for range 100 {
		w, l := a.write(attack{group: true})
		w.Namespace, l.SpamFilter.Burst, l.ReservePerReason = "shop", 0, 0
		if d, err := a.Decide(t.Context(), a.now, w, l); err != nil || d.Verdict != store.Drop {
			t.Fatalf("another namespace got %v, %v, want a drop", d.Verdict, err)
		}
	}
	a.checkAccounting()
}

// TestWideStormUnderQuotaMakesOneNotice refuses each CREATE by a quota. All share one notice, whatever the number of objects.
func TestWideStormUnderQuotaMakesOneNotice(t *testing.T) {
	a := newAttacker(t, MinBytes)
	for range 20_000 {
		w, l := a.write(attack{group: true, name: true, message: true, reason: true})
		l.Quotas = []store.Bucket{{Key: store.KeyOf("quota"), Name: "quota"}}
		if d, err := a.Decide(t.Context(), a.now, w, l); err != nil || d.Verdict != store.Drop || d.Occurrences != 1 {
			t.Fatalf("%+v, %v; want a drop of one occurrence", d, err)
		}
	}
	if n, err := a.Pending(t.Context()); a.groups.Len() != 1 || n != 1 || err != nil {
		t.Errorf("%d groups, of which %d are pending, %v; want one notice", a.groups.Len(), n, err)
	}
	if writes := a.claim(10, time.Hour); len(writes) != 1 || writes[0].Total != 20_000 || a.groups.Size() > 16<<10 {
		t.Errorf("%+v in %d bytes, want a notice of 20,000", writes, a.groups.Size())
	}
	a.checkAccounting()
}

// heapInUse returns the size of the heap after a garbage collection.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // frees the memory of finalized objects
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func TestNoSettlerMeansNothingPending(t *testing.T) {
	s := New(Options{Bytes: MinBytes, NoSettler: true})
	a := newAttacker(t, MinBytes)
	a.Store = s
	for range 5000 {
		w, l := a.write(attack{group: true, name: true})
		l.SimilarThreshold = 1
		for range 2 {
			if w.Name += "-"; !a.send(w, l) {
				t.Fatal("full although no write is pending")
			}
		}
	}
	if n, err := a.Pending(t.Context()); n != 0 || err != nil || len(a.claim(1000, 1000*time.Hour)) > 0 {
		t.Errorf("%d groups are pending (%v), want none", n, err)
	}
}

// TestQuotaRefusalsLeaveNoState refuses Events about different objects by a quota. Only the notice needs a register.
func TestQuotaRefusalsLeaveNoState(t *testing.T) {
	for _, count := range []int64{1, 2, 3, math.MaxInt32} {
		for _, first := range []time.Duration{0, -time.Hour, -24 * time.Hour} {
			t.Run(fmt.Sprint("count ", count, ", began ", first), func(t *testing.T) {
				a := newAttacker(t, DefaultBytes)
				for range 2000 {
					w, l := a.write(attack{group: true, name: true})
					l.Quotas[0].Limit = store.Limit{Every: time.Hour}
					w.Count, w.FirstSeen = count, a.now.Add(first)
					a.send(w, l)
				}
				if n := a.groups.Len(); n != 1 { // the notice
					t.Errorf("%d registers after 2,000 refused Events, want 1", n)
				}
				if all := a.claim(10, time.Hour); len(all) != 1 || all[0].Total != 2000 {
					t.Errorf("%+v, want a notice of 2,000", all)
				}
			})
		}
	}
}

// TestNamesRefusedByQuotaCountOnce has a recorder count up under a name that a quota refuses at first. In the end notices
// and the stored Event together report its count, whenever the register of its object was created.
func TestNamesRefusedByQuotaCountOnce(t *testing.T) {
	const last = 9
	for known := range int64(last + 1) { // the count after which another Event of the object is stored
		for passes := int64(1); passes <= last+1; passes++ { // the first count that is not refused
			a := newAttacker(t, DefaultBytes)
			w, l := a.write(attack{})
			w.Name, w.FirstSeen = "a", a.now
			empty := l
			empty.Quotas = slices.Clone(l.Quotas)
			empty.Quotas[0].Limit, empty.Quotas[0].Key = store.Limit{Every: time.Hour}, store.KeyOf("empty")
			stored := map[string]int64{}
			send := func(w store.Write, l store.Limits) {
				a.now = a.now.Add(time.Second)
				w.LastSeen = a.now
				d, err := a.Decide(t.Context(), a.now, w, l)
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
					other.Name, other.ExactKey, other.Count, other.FirstSeen = "other", store.KeyOf("other"), 1, a.now
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
			for _, p := range a.claim(10, 24*time.Hour) {
				total += p.Total - p.Written
			}
			if want := int64(last) + stored["other"]; total != want {
				t.Errorf("register created after count %d, refused up to count %d: %d occurrences reported, want %d", known, passes-1, total, want)
			}
		}
	}
}

// TestRefusedNamesAreBoundedPerNamespace checks that the bound of registers also bounds the names of refused Events, of which
// a register keeps at most 256.
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
		if !d.Verdict.Admits() {
			refused += d.Occurrences
		}
	}
	known := 0
	for _, e := range s.groups.All() {
		known += len(e.Value.RefusedNames)
	}
	// The overflow bucket has one more register, for its notice.
	if known != registers*256 || s.groups.Len() != registers+1 || refused != objects*names-registers-1 {
		t.Errorf("%d names in %d registers, %d occurrences refused", known, s.groups.Len(), refused)
	}
}
