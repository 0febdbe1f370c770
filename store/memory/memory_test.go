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

// TestOrderFollowsSteps has many writers merge into one Event concurrently. Its total shows the order of the steps.
func TestOrderFollowsSteps(t *testing.T) {
	const writers, each = 8, 200
	a := newAttacker(t, MinBytes)
	write, l := a.write(attack{group: true})
	decisions := make([][]store.Decision, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := range each {
				w := write
				w.Name, w.LastSeen = fmt.Sprint(i, "-", n), time.Now()
				d, err := a.Decide(t.Context(), time.Now(), w, l)
				if err != nil {
					t.Error(err)
				}
				decisions[i] = append(decisions[i], d)
			}
		})
	}
	wg.Wait()
	all := slices.SortedFunc(slices.Values(slices.Concat(decisions...)), func(a, b store.Decision) int { return cmp.Compare(a.Order, b.Order) })
	for i, d := range all {
		if i > 0 && (d.Verdict != store.Merge || d.Total != int64(i+1)) || i == 0 && d.Verdict != store.Admit {
			t.Fatalf("decision %d by order is %+v, want total %d", i+1, d, i+1)
		}
		if i > 0 && d.Order == all[i-1].Order {
			t.Fatalf("two decisions have the order %d", d.Order)
		}
	}
}

// TestForecastMatchesDecisions decides the same writes by a store and by a copy of it. Both decide alike, and the copy does not
// change its source.
func TestForecastMatchesDecisions(t *testing.T) {
	for seed := range uint64(20) {
		a := newAttacker(t, DefaultBytes)
		a.rng = rand.New(rand.NewPCG(seed, 0))
		var groups []store.Key
		next := func() (store.Write, store.Limits) {
			w, l := a.write(attack{name: a.rng.IntN(4) > 0, message: a.rng.IntN(3) == 0})
			w.GroupKey = store.KeyOf(fmt.Sprint("group", a.rng.IntN(5)))
			l.SimilarThreshold, l.SpamFilter.Burst = 3, 6
			l.Quotas = []store.Bucket{{Key: store.KeyOf("quota"), Name: "quota", Limit: store.Limit{Burst: 15, Every: time.Minute}}}
			groups = append(groups, w.GroupKey, engine.NoticeKey(&l.Quotas[0]))
			return w, l
		}
		for range 100 {
			a.now = a.now.Add(time.Duration(a.rng.Int64N(int64(10 * time.Second))))
			w, l := next()
			a.send(w, l)
		}
		st, err := a.Peek(t.Context(), groups, []store.Key{store.KeyOf("quota"), store.KeyOf("never used")})
		if err != nil || !st.At.Equal(a.now.Truncate(time.Microsecond)) || len(st.Buckets) != 1 {
			t.Fatalf("%d bucket states at %v, %v; want one at the time of the last step", len(st.Buckets), st.At, err)
		}
		forecast, another := storeFromSnapshot(st), storeFromSnapshot(st)
		copied := map[store.Key]string{}
		for key, g := range st.Groups {
			copied[key] = encoded(t, g)
		}
		for i := range 50 {
			w, l := next()
			got, gotErr := forecast.Decide(t.Context(), a.now, w, l)
			want, wantErr := a.Decide(t.Context(), a.now, w, l)
			if gotErr != nil || wantErr != nil || describeDecision(got) != describeDecision(want) {
				t.Fatalf("seed %d, write %d: %v, %v, want %v, %v", seed, i, describeDecision(got), gotErr, describeDecision(want), wantErr)
			}
		}
		before, err := another.Peek(t.Context(), groups, []store.Key{store.KeyOf("quota")})
		if err != nil || fmt.Sprint(before.Buckets) != fmt.Sprint(st.Buckets) {
			t.Errorf("seed %d: %v, %v, want another copy unchanged", seed, before.Buckets, err)
		}
		for key, g := range before.Groups {
			if encoded(t, g) != copied[key] {
				t.Errorf("seed %d: a forecast changed the snapshot that it was made from", seed)
			}
		}
	}
}

// storeFromSnapshot returns a store that continues from a copy of another store's state.
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
	a := newAttacker(t, MinBytes)
	groups := []store.Key{store.KeyOf("never seen")}
	send := func() {
		w, l := a.write(attack{group: true})
		a.send(w, l)
		groups = append(groups, w.GroupKey)
	}
	for range 50 {
		send()
	}
	a.now = a.now.Add(1000 * time.Hour)
	send()
	st, err := a.Peek(t.Context(), groups, nil)
	if err != nil || len(st.Groups) != 1 || st.Groups[groups[51]] == nil || a.groups.Len() < 2 {
		t.Errorf("%d groups of %d, %v, want only the last one", len(st.Groups), a.groups.Len(), err)
	}
}

// TestReportDrops checks that reported drops are in a notice, and that a full store returns ErrFull.
func TestReportDrops(t *testing.T) {
	a := newAttacker(t, MinBytes)
	w, l := a.write(attack{group: true})
	quota := store.Bucket{Key: store.KeyOf("quota"), Name: "quota", NoticeObject: w.InvolvedObject}
	drops := engine.NewDrops(a.now, w, &l, &quota, 7)
	for range 2 {
		if err := a.ReportDrops(a.now, "production", engine.NoticeKey(&quota), &drops); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.ReportDrops(a.now, "production", store.KeyOf("nothing"), &engine.Drops{}); err != nil || a.groups.Len() != 1 {
		t.Errorf("%d groups, %v, after a report of no drops, want 1", a.groups.Len(), err)
	}
	if writes := a.claim(10, time.Hour); len(writes) != 1 || writes[0].Total != 14 {
		t.Errorf("%+v, want a notice of 14", writes)
	}
	a.checkAccounting()
	var err error
	for i := 0; err == nil && i < MinBytes; i++ {
		err = a.ReportDrops(a.now, "production", store.KeyOf(fmt.Sprint(i)), &drops)
	}
	if !errors.Is(err, store.ErrFull) || a.groups.Size() > MinBytes {
		t.Errorf("%v in %d bytes, want ErrFull", err, a.groups.Size())
	}
	a.checkAccounting()
}

// TestClockSteppedBackDelaysNoWrite corrects a clock that was a day ahead. Pending writes are then due one write interval
// after the correction, whether more Events come or not.
func TestClockSteppedBackDelaysNoWrite(t *testing.T) {
	for name, tt := range map[string]struct {
		next  func(*testing.T, *Store, store.Write, store.Limits, time.Time)
		drops bool
	}{
		"nothing more comes": {next: func(*testing.T, *Store, store.Write, store.Limits, time.Time) {}},
		"one more comes":     {next: repeat},
		"a quota drops, and nothing more comes": {
			next: func(*testing.T, *Store, store.Write, store.Limits, time.Time) {}, drops: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttacker(t, DefaultBytes)
			a.now = epoch().Add(24 * time.Hour)
			w, l := a.write(attack{})
			if tt.drops {
				l.Quotas[0].Limit, l.Quotas[0].Name = store.Limit{Every: time.Hour}, "quota"
			}
			a.send(w, l)
			repeat(t, a.Store, w, l, a.now)
			a.now = epoch()
			tt.next(t, a.Store, w, l, a.now)
			if n := len(a.claim(10, 0)); n != 0 {
				t.Errorf("%d writes are due at once, want none before the write interval", n)
			}
			a.now = epoch().Add(l.WriteInterval)
			if n := len(a.claim(10, 0)); n != 1 {
				t.Errorf("%d writes are due a write interval after the clock was corrected, want 1", n)
			}
			a.checkAccounting()
		})
	}
}

// repeat sends a write again, under another name.
func repeat(t *testing.T, s *Store, w store.Write, l store.Limits, now time.Time) {
	t.Helper()
	w.Name += now.String()
	d, err := s.Decide(t.Context(), now, w, l)
	if err != nil || d.Verdict.Admits() {
		t.Fatalf("%v, %v, want a refusal", d.Verdict, err)
	}
	if after := d.Order - now.UnixMicro(); after > 10 {
		t.Errorf("its order is %v after its time", time.Duration(after)*time.Microsecond)
	}
}
