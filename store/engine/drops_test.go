package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

func quotaBucket() store.Bucket {
	return store.Bucket{Key: store.KeyOf("quota"), Name: "per namespace", Policy: "quota tenants", NoticeObject: store.Object{Kind: "Namespace", Name: "default"}}
}

// Drops make the same notice whether they are added one by one, in groups or all at once. The only exception: of more than
// fifteen reasons, the order decides which ones are counted by name.
func TestDropsMerge(t *testing.T) {
	b, l := quotaBucket(), someLimits()
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		reasons := 15 + 15*int(seed%2)
		var one, some, all engine.Group
		var group, whole engine.Drops
		for i := range 200 {
			now := epoch().Add(time.Duration(i) * time.Millisecond)
			w := someWrite(fmt.Sprint(i), now)
			w.Reason, w.Warning, w.InvolvedObject.Name = fmt.Sprint("r", rng.IntN(reasons)), rng.IntN(100) == 0, fmt.Sprint("pod-", rng.IntN(50))
			w.Source.Component = fmt.Sprint("source-", rng.IntN(3))
			d := engine.NewDrops(now, w, &l, &b, rng.Int64N(4))
			one.AddDrops(now, store.KeyOf("fresh"), &d)
			group.Merge(&d)
			whole.Merge(&d)
			if rng.IntN(9) == 0 {
				some.AddDrops(now, store.KeyOf("fresh"), &group)
				group = engine.Drops{}
			}
		}
		now := epoch().Add(time.Second)
		some.AddDrops(now, store.KeyOf("fresh"), &group)
		all.AddDrops(now, store.KeyOf("fresh"), &whole)
		want := onlyNotice(t, &one)
		for name, g := range map[string]*engine.Group{"in groups": &some, "at once": &all} {
			got := onlyNotice(t, g)
			if reasons > 15 && sum(got.Notice.Reasons) == want.Total {
				got.Notice.Reasons = want.Notice.Reasons
			}
			if got.Total != want.Total || got.LastSeen != want.LastSeen || !reflect.DeepEqual(got.Notice, want.Notice) {
				t.Fatalf("seed %d: %s\n%+v %+v, want\n%+v %+v", seed, name, got, got.Notice, want, want.Notice)
			}
		}
		if sum(want.Notice.Reasons) != want.Total || sum(want.Notice.Sources) != want.Total {
			t.Fatalf("seed %d: the counts of %+v do not add up to %d", seed, want.Notice, want.Total)
		}
		if len(want.Notice.Reasons) != min(reasons, 15)+reasons/30 || len(want.Notice.Objects) != 10 {
			t.Fatalf("seed %d: %+v, want 15 reasons (and one for the rest of 30) and ten objects", seed, want.Notice)
		}
	}
}

func onlyNotice(t *testing.T, g *engine.Group) store.PendingWrite {
	t.Helper()
	writes := g.Claim(store.Key{}, epoch().Add(1000*time.Hour))
	if len(writes) != 1 || writes[0].Notice == nil {
		t.Fatalf("%+v, want one notice", writes)
	}
	return writes[0]
}

func sum(all []store.Tally) (n int64) {
	for _, t := range all {
		n += t.Count
	}
	return n
}

// Drops that are added late keep their times, and the settings of a changed policy apply from then on.
func TestNoticeUsesNewestSettings(t *testing.T) {
	b, l, now := quotaBucket(), someLimits(), epoch()
	var g engine.Group
	first := engine.NewDrops(now, someWrite("a", now), &l, &b, 1)
	g.AddDrops(now, store.KeyOf("fresh"), &first)
	l.Window, l.WriteInterval, l.MaxWriteInterval = 2*time.Minute, time.Second, time.Minute
	late := engine.NewDrops(now.Add(-time.Second), someWrite("b", now), &l, &b, 1)
	g.AddDrops(now.Add(time.Minute), store.KeyOf("fresh"), &late)
	p := onlyNotice(t, &g)
	if p.Total != 2 || !p.Notice.First.Equal(now.Add(-time.Second)) || !p.LastSeen.Equal(now) {
		t.Errorf("%+v %+v, want two drops, one second apart", p, p.Notice)
	}
	g.Complete(now.Add(time.Minute), store.KeyOf("fresh"), &p, store.Outcome{UID: "uid", ResourceVersion: "1"})
	g.AddDrops(now.Add(time.Minute), store.KeyOf("fresh"), &late)
	if due := g.Due().Sub(now); due != 62*time.Second {
		t.Errorf("due at %v, want twice the new interval after the first write", due)
	}
	g.AddDrops(now.Add(2*time.Minute), store.KeyOf("another"), &late)
	if n := len(g.Notices); n != 2 {
		t.Errorf("%d notices after the new window, want 2", n)
	}
}

// If no settler writes for days, drops are still counted, and registers stay bounded.
func TestUnwrittenNoticesAreBounded(t *testing.T) {
	l, b, now := someLimits(), quotaBucket(), epoch()
	var g engine.Group
	for range 1000 {
		d := engine.NewDrops(now, someWrite("a", now), &l, &b, 3)
		g.AddDrops(now, store.KeyOf(now.String()), &d)
		now = now.Add(l.Window)
	}
	total := int64(0)
	writes := g.Claim(store.Key{}, now)
	for _, p := range writes {
		total += p.Total
	}
	if total != 3000 || len(writes) > 8 {
		t.Errorf("%d notices of %d drops, want at most 8 of 3000", len(writes), total)
	}
}

// TestNoticesOfOneStepHaveUniqueNames uses IDs in one step that are not valid runes, and the largest IDs.
func TestNoticesOfOneStepHaveUniqueNames(t *testing.T) {
	for _, before := range []uint64{0, 0xD7FE, utf8.MaxRune - 1, 1<<32 - 2, math.MaxUint64 - 8} {
		g := engine.Group{NextID: before}
		for i := range 8 {
			l, b := someLimits(), quotaBucket()
			b.Name = fmt.Sprint("limit ", i)
			d := engine.NewDrops(epoch(), someWrite("a", epoch()), &l, &b, 1)
			g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
		}
		names := map[string]bool{}
		for i := range g.Notices {
			names[g.Notices[i].Name] = true
		}
		if len(names) != 8 {
			t.Errorf("8 notices from id %d on have %d names", before+1, len(names))
		}
	}
}
