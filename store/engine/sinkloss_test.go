package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// TestSinkLossReachesItsNotice adds drops and their sink losses in random order and groups. The notice reports the losses, and
// is otherwise the same as without them.
func TestSinkLossReachesItsNotice(t *testing.T) {
	b, l := quotaBucket(), someLimits()
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var plain, g engine.Group
		var pending engine.Drops
		missing := int64(0)
		for i := range 100 {
			now := epoch().Add(time.Duration(i) * time.Millisecond)
			w := someWrite(fmt.Sprint(i), now)
			d := engine.NewDrops(now, w, &l, &b, 1+rng.Int64N(3))
			plain.AddDrops(now, store.KeyOf("fresh"), &d)
			pending.Merge(&d)
			for range rng.IntN(2) {
				m := engine.NewSinkLoss(&w, &b, 1)
				lost := m.AsDrops("default")
				missing += m.Occurrences
				if rng.IntN(2) == 0 {
					before := engine.Drops{}
					before.Merge(&lost)
					before.Merge(&pending)
					pending = before
				} else {
					pending.Merge(&lost)
				}
			}
			if rng.IntN(5) == 0 {
				g.AddDrops(now, store.KeyOf("fresh"), &pending)
				pending = engine.Drops{}
			}
		}
		g.AddDrops(epoch().Add(time.Second), store.KeyOf("fresh"), &pending)
		want, got := onlyNotice(t, &plain), onlyNotice(t, &g)
		if got.Notice.NotInSink != missing || got.Total != want.Total || !got.Notice.First.Equal(want.Notice.First) ||
			sum(got.Notice.Reasons) != sum(want.Notice.Reasons) || got.Notice.InvolvedObject != want.Notice.InvolvedObject || got.Notice.Policy != want.Notice.Policy {
			t.Fatalf("seed %d: %+v %+v, want %d not in the sink, and otherwise\n%+v %+v", seed, got, got.Notice, missing, want, want.Notice)
		}
	}
}

// TestSinkLossWithoutNoticeIsIgnored checks that a sink loss creates no notice and counts only in that of its bucket, up to the
// notice's count. A notice that was written is written again, until it reports that all copies are lost.
func TestSinkLossWithoutNoticeIsIgnored(t *testing.T) {
	b, l, now := quotaBucket(), someLimits(), epoch()
	w := someWrite("a", now)
	add := func(g *engine.Group, bucket store.Bucket, n int64) {
		m := engine.NewSinkLoss(&w, &bucket, n)
		d := m.AsDrops("default")
		g.AddDrops(now, store.KeyOf("fresh"), &d)
	}
	var g engine.Group
	add(&g, b, 3)
	if len(g.Notices) != 0 || !g.Due().IsZero() {
		t.Errorf("a notice without drops: %+v", g.Notices)
	}
	drops := engine.NewDrops(now, w, &l, &b, 5)
	g.AddDrops(now, store.KeyOf("fresh"), &drops)
	other := b
	other.Policy = "another"
	add(&g, other, 2)
	p := onlyNotice(t, &g)
	if p.Notice.NotInSink != 0 {
		t.Errorf("the notice counts %d losses of another bucket, want none", p.Notice.NotInSink)
	}
	g.Complete(now, store.KeyOf("fresh"), &p, store.Outcome{UID: "uid", ResourceVersion: "1"})
	if !g.Due().IsZero() {
		t.Fatal("the notice is pending after it was written")
	}
	add(&g, b, 2)
	if p = onlyNotice(t, &g); p.Notice.NotInSink != 2 || p.Total != 5 {
		t.Errorf("%d of %d are not in the sink, want 2 of 5", p.Notice.NotInSink, p.Total)
	}
	add(&g, b, 100)
	if p = onlyNotice(t, &g); p.Notice.NotInSink != 5 {
		t.Errorf("%d of %d are not in the sink, want 5 of 5", p.Notice.NotInSink, p.Total)
	}
	g.Complete(now, store.KeyOf("fresh"), &p, store.Outcome{UID: "uid", ResourceVersion: "2"})
	add(&g, b, 1)
	if !g.Due().IsZero() {
		t.Error("the notice is pending although it reports all losses already")
	}
	silent := b
	silent.Silent = true
	if m := engine.NewSinkLoss(&w, &silent, 3); m.Occurrences != 0 {
		t.Errorf("%d losses of a bucket without notices, want none", m.Occurrences)
	}
}

// TestSinkLossIsEncoded checks that a sink loss survives encoding and cloning.
func TestSinkLossIsEncoded(t *testing.T) {
	b, l, now := quotaBucket(), someLimits(), epoch()
	w := someWrite("a", now)
	var g engine.Group
	drops := engine.NewDrops(now, w, &l, &b, 5)
	g.AddDrops(now, store.KeyOf("fresh"), &drops)
	m := engine.NewSinkLoss(&w, &b, 3)
	lost := m.AsDrops("default")
	g.AddDrops(now, store.KeyOf("fresh"), &lost)
	decoded, err := engine.Unmarshal(g.Append(nil))
	if err != nil || decoded.Notices[0].NotInSink != 3 || g.Clone().Notices[0].NotInSink != 3 {
		t.Errorf("decoded %+v, error %v; want 3 not in the sink", decoded, err)
	}
}

// TestSinkLossOfCombinedNotice checks that a loss counts in the combined notice of its reason and type, or in the notice of all
// other drops if there is no such combined notice.
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
		var list engine.DropList // as in a backlog
		list.Merge(&missing)
		list.Merge(&d)
		for j := range list {
			g.AddDrops(now, store.KeyOf(fmt.Sprint(i, j)), &list[j])
		}
		other := w
		other.Warning = !w.Warning // a type without drops
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
				t.Errorf("%s: %d of %d are not in the sink, want 2 of 5", p.Notice.Reason, p.Notice.NotInSink, p.Total)
			}
		}
	}
	// Losses of the other type count nowhere until the notice of all other drops exists.
	if rest := lost[""]; combined != 16 || total != 200 || rest != 24*3 {
		t.Errorf("%d combined notices, %d dropped, %d of all others not in the sink; want 16, 200 and 72", combined, total, rest)
	}
}

// TestSinkLossOfSeveralNotices checks losses that arrive after the next notice of the same drops was opened.
func TestSinkLossOfSeveralNotices(t *testing.T) {
	b, l := quotaBucket(), someLimits()
	w := someWrite("a", epoch())
	var g engine.Group
	for i, n := range []int64{5, 3, 1} {
		now := epoch().Add(time.Duration(i) * l.Window)
		d := engine.NewDrops(now, w, &l, &b, n)
		g.AddDrops(now, store.KeyOf(fmt.Sprint(i)), &d)
	}
	m := engine.NewSinkLoss(&w, &b, 1)
	m.Occurrences = 6 // of several writes
	lost := m.AsDrops("default")
	g.AddDrops(epoch().Add(2*l.Window), store.KeyOf("lost"), &lost)
	var got []int64
	for i := range g.Notices {
		got = append(got, g.Notices[i].NotInSink)
	}
	if want := []int64{2, 3, 1}; !slices.Equal(got, want) {
		t.Errorf("of 5, 3 and 1 drops, %v are not in the sink, want %v", got, want)
	}
}

// TestSinkLossBesidePendingCombinedNotice has a combined notice of an earlier window that is not written yet. There is no slot for the
// next one of its reason, so the notice of all reasons reports its drops.
func TestSinkLossBesidePendingCombinedNotice(t *testing.T) {
	b, l := quotaBucket(), someLimits()
	b.Combined, b.NoticeObject.Namespace = true, "shop"
	var g engine.Group
	drop := func(reason string, now time.Time) {
		w := someWrite("a", now)
		w.Reason = reason
		d, m := engine.NewDrops(now, w, &l, &b, 1), engine.NewSinkLoss(&w, &b, 1)
		g.AddDrops(now, store.KeyOf(fmt.Sprint(reason, now)), &d)
		lost := m.AsDrops("default")
		g.AddDrops(now, store.KeyOf("lost"), &lost)
	}
	drop("old", epoch())
	for i := range 16 {
		drop(fmt.Sprint(i), epoch().Add(l.Window))
	}
	drop("old", epoch().Add(l.Window))
	for i := range g.Notices {
		if n := &g.Notices[i]; n.NotInSink != n.Total {
			t.Errorf("notice of %q: %d of %d are not in the sink, want all", n.Reason, n.NotInSink, n.Total)
		}
	}
}
