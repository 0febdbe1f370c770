package memory

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// TestOrderFollowsSteps has many writers merge into one Event at the same time: its total says in
// which order they came.
func TestOrderFollowsSteps(t *testing.T) {
	const writers, each = 8, 200
	h := newAttacker(t, MinBytes)
	write, l := h.write(attack{group: true})
	decisions := make([][]store.Decision, writers)
	var together sync.WaitGroup
	for i := range writers {
		together.Go(func() {
			for n := range each {
				w := write
				w.Name, w.LastSeen = fmt.Sprint(i, "-", n), time.Now()
				d, err := h.Decide(t.Context(), time.Now(), w, l)
				if err != nil {
					t.Error(err)
				}
				decisions[i] = append(decisions[i], d)
			}
		})
	}
	together.Wait()
	all := slices.SortedFunc(slices.Values(slices.Concat(decisions...)), func(a, b store.Decision) int { return cmp.Compare(a.Order, b.Order) })
	for i, d := range all {
		if i > 0 && (d.Verdict != store.Merge || d.Total != int64(i+1)) || i == 0 && d.Verdict != store.Admit {
			t.Fatalf("decision %d in order is %+v, want that which brought the total to %d", i+1, d, i+1)
		}
		if i > 0 && d.Order == all[i-1].Order {
			t.Fatalf("two decisions have the order %d", d.Order)
		}
	}
}

// What is decided on a copy is what the store itself decides, and the store does not notice.
func TestForecastMatchesDecisions(t *testing.T) {
	for seed := range uint64(20) {
		h := newAttacker(t, DefaultBytes)
		h.rng = rand.New(rand.NewPCG(seed, 0))
		var groups []store.Key
		next := func() (store.Write, store.Limits) {
			w, l := h.write(attack{name: h.rng.IntN(4) > 0, message: h.rng.IntN(3) == 0})
			w.GroupKey = store.KeyOf(fmt.Sprint("group", h.rng.IntN(5)))
			l.SimilarThreshold, l.SpamFilter.Burst = 3, 6
			l.Quotas = []store.Bucket{{Key: store.KeyOf("quota"), Name: "quota", Limit: store.Limit{Burst: 15, Every: time.Minute}}}
			groups = append(groups, w.GroupKey, engine.NoticeKey(&l.Quotas[0]))
			return w, l
		}
		for range 100 {
			h.now = h.now.Add(time.Duration(h.rng.Int64N(int64(10 * time.Second))))
			w, l := next()
			h.send(w, l)
		}
		st, err := h.Peek(t.Context(), groups, []store.Key{store.KeyOf("quota"), store.KeyOf("never used")})
		if err != nil || !st.At.Equal(h.now.Truncate(time.Microsecond)) || len(st.Buckets) != 1 {
			t.Fatalf("%d levels at %v, %v; want one at the time of the last step", len(st.Buckets), st.At, err)
		}
		forecast, another := storeFromSnapshot(st), storeFromSnapshot(st)
		copied := map[store.Key]string{}
		for key, g := range st.Groups {
			copied[key] = encoded(t, g)
		}
		for i := range 50 {
			w, l := next()
			got, gotErr := forecast.Decide(t.Context(), h.now, w, l)
			want, wantErr := h.Decide(t.Context(), h.now, w, l)
			if gotErr != nil || wantErr != nil || describeDecision(got) != describeDecision(want) {
				t.Fatalf("seed %d, write %d: %v, %v, want %v, %v", seed, i, describeDecision(got), gotErr, describeDecision(want), wantErr)
			}
		}
		before, err := another.Peek(t.Context(), groups, []store.Key{store.KeyOf("quota")})
		if err != nil || fmt.Sprint(before.Buckets) != fmt.Sprint(st.Buckets) {
			t.Errorf("seed %d: %v, %v, want another forecast to be where it was", seed, before.Buckets, err)
		}
		for key, g := range before.Groups {
			if encoded(t, g) != copied[key] {
				t.Errorf("seed %d: a forecast changed the copy that it is made of", seed)
			}
		}
	}
}

// storeFromSnapshot makes a store that goes on from a copy of what another holds.
func storeFromSnapshot(st engine.Snapshot) *Store {
	s := New(Options{Bytes: DefaultBytes})
	for key, v := range st.Buckets {
		s.setBucketState("", &store.Bucket{Key: key}, v)
	}
	for key, g := range st.Groups {
		e := s.create(g.Namespace, key)
		e.Group = *g.Clone()
		s.updateAccounting(e)
	}
	s.lastStep = st.At
	return s
}

func encoded(t *testing.T, g *engine.Group) string {
	t.Helper()
	return string(g.Append(nil))
}

func describeDecision(d store.Decision) string {
	bucket := ""
	if d.RefusedBy != nil {
		bucket = d.RefusedBy.Name
	}
	return fmt.Sprint(d.Verdict, " into ", d.MergedInto, " ", d.Total, " ", bucket, " ", d.NextToken, " ", d.Occurrences)
}

func TestPeekOmitsExpiredGroups(t *testing.T) {
	h := newAttacker(t, MinBytes)
	groups := []store.Key{store.KeyOf("never seen")}
	send := func() {
		w, l := h.write(attack{group: true})
		h.send(w, l)
		groups = append(groups, w.GroupKey)
	}
	for range 50 {
		send()
	}
	h.now = h.now.Add(1000 * time.Hour)
	send()
	st, err := h.Peek(t.Context(), groups, nil)
	if err != nil || len(st.Groups) != 1 || st.Groups[groups[51]] == nil || h.groups.Len() < 2 {
		t.Errorf("%d groups of %d, %v, want the one of now", len(st.Groups), h.groups.Len(), err)
	}
}

// Drops that were not reported elsewhere are in a notice, and a full store says that it has no place for them.
func TestReportDrops(t *testing.T) {
	h := newAttacker(t, MinBytes)
	w, l := h.write(attack{group: true})
	quota := store.Bucket{Key: store.KeyOf("quota"), Name: "quota", NoticeObject: w.InvolvedObject}
	drops := engine.NewDrops(h.now, w, &l, &quota, 7)
	for range 2 {
		if err := h.ReportDrops(h.now, "production", engine.NoticeKey(&quota), &drops); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.ReportDrops(h.now, "production", store.KeyOf("nothing"), &engine.Drops{}); err != nil || h.groups.Len() != 1 {
		t.Errorf("%d groups, %v, after a report of nothing, want 1", h.groups.Len(), err)
	}
	if writes := h.claim(10, time.Hour); len(writes) != 1 || writes[0].Total != 14 {
		t.Errorf("%+v, want a notice of 14", writes)
	}
	h.checkAccounting()
	var err error
	for i := 0; err == nil && i < MinBytes; i++ {
		err = h.ReportDrops(h.now, "production", store.KeyOf(fmt.Sprint(i)), &drops)
	}
	if !errors.Is(err, store.ErrFull) || h.groups.Size() > MinBytes {
		t.Errorf("%v in %d bytes, want that there is no place for more", err, h.groups.Size())
	}
	h.checkAccounting()
}

// TestClockSteppedBackDelaysNoWrite has the clock be a day ahead, and then be put right. What is pending is due when it
// would be if it had happened then, whether anything more comes or not.
func TestClockSteppedBackDelaysNoWrite(t *testing.T) {
	for says, tt := range map[string]struct {
		then  func(*testing.T, *Store, store.Write, store.Limits, time.Time)
		drops bool
	}{
		"nothing more comes": {then: func(*testing.T, *Store, store.Write, store.Limits, time.Time) {}},
		"one more comes":     {then: repeat},
		"a quota drops, and nothing more comes": {
			then: func(*testing.T, *Store, store.Write, store.Limits, time.Time) {}, drops: true,
		},
	} {
		t.Run(says, func(t *testing.T) {
			h := newAttacker(t, DefaultBytes)
			h.now = epoch().Add(24 * time.Hour)
			w, l := h.write(attack{})
			if tt.drops {
				l.Quotas[0].Limit, l.Quotas[0].Name = store.Limit{Every: time.Hour}, "quota"
			}
			h.send(w, l)
			repeat(t, h.Store, w, l, h.now)
			h.now = epoch()
			tt.then(t, h.Store, w, l, h.now)
			if n := len(h.claim(10, 0)); n != 0 {
				t.Errorf("%d writes are due at once, want none before the write interval", n)
			}
			h.now = epoch().Add(l.WriteInterval)
			if n := len(h.claim(10, 0)); n != 1 {
				t.Errorf("%d writes are due a write interval after the clock was put right, want 1", n)
			}
			h.checkAccounting()
		})
	}
}

// repeat sends a write again, under another name.
func repeat(t *testing.T, s *Store, w store.Write, l store.Limits, now time.Time) {
	t.Helper()
	w.Name += now.String()
	d, err := s.Decide(t.Context(), now, w, l)
	if err != nil || d.Verdict.Admits() {
		t.Fatalf("%v %v, want it refused", d.Verdict, err)
	}
	if after := d.Order - now.UnixMicro(); after > 10 {
		t.Errorf("it is %v after its time in the order of decisions", time.Duration(after)*time.Microsecond)
	}
}
