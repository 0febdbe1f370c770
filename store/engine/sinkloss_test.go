package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// TestSinkLossReachesItsNotice adds drops, and what is missing of them, in every order and in groups: the notice says how
// much is missing, and all else as if nothing were.
func TestSinkLossReachesItsNotice(t *testing.T) {
	b, l := quotaBucket(), someLimits()
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var plain, g engine.Group
		var waiting engine.Drops
		missing := int64(0)
		for i := range 100 {
			now := epoch().Add(time.Duration(i) * time.Millisecond)
			w := someWrite(fmt.Sprint(i), now)
			d := engine.NewDrops(now, w, &l, &b, 1+rng.Int64N(3))
			plain.AddDrops(now, store.KeyOf("fresh"), &d)
			waiting.Merge(&d)
			for range rng.IntN(2) {
				m := engine.NewSinkLoss(&w, &b, 1)
				lost := m.AsDrops("default")
				missing += m.Occurrences
				if rng.IntN(2) == 0 {
					before := engine.Drops{}
					before.Merge(&lost)
					before.Merge(&waiting)
					waiting = before
				} else {
					waiting.Merge(&lost)
				}
			}
			if rng.IntN(5) == 0 {
				g.AddDrops(now, store.KeyOf("fresh"), &waiting)
				waiting = engine.Drops{}
			}
		}
		g.AddDrops(epoch().Add(time.Second), store.KeyOf("fresh"), &waiting)
		want, got := onlyNotice(t, &plain), onlyNotice(t, &g)
		if got.Notice.NotInSink != missing || got.Total != want.Total || !got.Notice.First.Equal(want.Notice.First) ||
			sum(got.Notice.Reasons) != sum(want.Notice.Reasons) || got.Notice.InvolvedObject != want.Notice.InvolvedObject || got.Notice.Policy != want.Notice.Policy {
			t.Fatalf("seed %d: %+v %+v, want %d missing of\n%+v %+v", seed, got, got.Notice, missing, want, want.Notice)
		}
	}
}

// TestSinkLossWithoutNoticeIsIgnored holds that it makes none, that it is of its own bucket only, and never more than what the
// notice reports; and that a notice that is written is written again, once.
func TestSinkLossWithoutNoticeIsIgnored(t *testing.T) {
	b, l, now := quotaBucket(), someLimits(), epoch()
	w := someWrite("a", now)
	add := func(g *engine.Group, of store.Bucket, n int64) {
		m := engine.NewSinkLoss(&w, &of, n)
		d := m.AsDrops("default")
		g.AddDrops(now, store.KeyOf("fresh"), &d)
	}
	var g engine.Group
	add(&g, b, 3)
	if len(g.Notices) != 0 || !g.Due().IsZero() {
		t.Errorf("a notice of nothing: %+v", g.Notices)
	}
	drops := engine.NewDrops(now, w, &l, &b, 5)
	g.AddDrops(now, store.KeyOf("fresh"), &drops)
	other := b
	other.Policy = "another"
	add(&g, other, 2)
	p := onlyNotice(t, &g)
	if p.Notice.NotInSink != 0 {
		t.Errorf("%d are missing of another bucket", p.Notice.NotInSink)
	}
	g.Complete(now, store.KeyOf("fresh"), &p, store.Outcome{UID: "uid", ResourceVersion: "1"})
	if !g.Due().IsZero() {
		t.Fatal("it is pending after it was written")
	}
	add(&g, b, 2)
	if p = onlyNotice(t, &g); p.Notice.NotInSink != 2 || p.Total != 5 {
		t.Errorf("%d of %d are missing, want 2 of 5", p.Notice.NotInSink, p.Total)
	}
	add(&g, b, 100)
	if p = onlyNotice(t, &g); p.Notice.NotInSink != 5 {
		t.Errorf("%d of %d are missing, want all and no more", p.Notice.NotInSink, p.Total)
	}
	g.Complete(now, store.KeyOf("fresh"), &p, store.Outcome{UID: "uid", ResourceVersion: "2"})
	add(&g, b, 1)
	if !g.Due().IsZero() {
		t.Error("a notice that says that all is missing is written again")
	}
	silent := b
	silent.Silent = true
	if m := engine.NewSinkLoss(&w, &silent, 3); m.Occurrences != 0 {
		t.Errorf("%d are missing of a bucket without notices", m.Occurrences)
	}
}

// TestSinkLossIsEncoded holds that by the codec.
func TestSinkLossIsEncoded(t *testing.T) {
	b, l, now := quotaBucket(), someLimits(), epoch()
	w := someWrite("a", now)
	var g engine.Group
	drops := engine.NewDrops(now, w, &l, &b, 5)
	g.AddDrops(now, store.KeyOf("fresh"), &drops)
	m := engine.NewSinkLoss(&w, &b, 3)
	lost := m.AsDrops("default")
	g.AddDrops(now, store.KeyOf("fresh"), &lost)
	kept, err := engine.Unmarshal(g.Append(nil))
	if err != nil || kept.Notices[0].NotInSink != 3 || g.Clone().Notices[0].NotInSink != 3 {
		t.Errorf("%+v, %v, want 3 missing", kept, err)
	}
}

// TestSinkLossOfCombinedNotice holds that the notice of the same reason and type says so or, where that reason has had no
// place, the notice of all others.
func TestSinkLossOfCombinedNotice(t *testing.T) {
	b, l, now := quotaBucket(), someLimits(), epoch()
	b.Combined, b.NoticeObject.Namespace = true, "shop"
	var g engine.Group
	lost := map[string]int64{}
	for i := range 40 {
		w := someWrite(fmt.Sprint(i), now)
		w.Reason, w.Warning = fmt.Sprint("r", i), i%2 == 0
		d := engine.NewDrops(now, w, &l, &b, 5)
		m := engine.NewSinkLoss(&w, &b, 2)
		missing := m.AsDrops("default")
		var list engine.DropList // as a backlog has them
		list.Merge(&missing)
		list.Merge(&d)
		for j := range list {
			g.AddDrops(now, store.KeyOf(fmt.Sprint(i, j)), &list[j])
		}
		other := w
		other.Warning = !w.Warning // a type of which nothing is reported
		m = engine.NewSinkLoss(&other, &b, 1)
		missing = m.AsDrops("default")
		g.AddDrops(now, store.KeyOf(fmt.Sprint(i)), &missing)
	}
	combined, total := 0, int64(0)
	for _, p := range g.Claim(store.Key{}, now.Add(time.Hour)) {
		lost[p.Notice.Reason] += p.Notice.NotInSink
		total += p.Total
		if p.Notice.Reason != "" {
			combined++
			if p.Notice.NotInSink != 2 || p.Total != 5 {
				t.Errorf("%s: %d of %d are missing, want 2 of 5", p.Notice.Reason, p.Notice.NotInSink, p.Total)
			}
		}
	}
	// What was missing of the other type before there was a notice of all others is nowhere.
	if rest := lost[""]; combined != 16 || total != 200 || rest != 24*3 {
		t.Errorf("%d combined notices, %d dropped and %d missing of all others, want 16, 200 and 72", combined, total, rest)
	}
}
