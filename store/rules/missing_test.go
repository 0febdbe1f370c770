package rules_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// TestWhatIsMissingComesToItsNotice adds drops, and what is missing of them, in every order and in groups: the notice says how
// much is missing, and all else as if nothing were.
func TestWhatIsMissingComesToItsNotice(t *testing.T) {
	b, l := quotaBucket(), someLimits()
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var plain, g rules.Group
		var waiting rules.Drops
		missing := int64(0)
		for i := range 100 {
			now := epoch().Add(time.Duration(i) * time.Millisecond)
			w := someWrite(fmt.Sprint(i), now)
			d := rules.Dropped(now, w, &l, &b, 1+rng.Int64N(3))
			plain.AddDrops(now, store.KeyOf("fresh"), &d)
			waiting.Merge(&d)
			for range rng.IntN(2) {
				m := rules.MissingOf(&w, &b, 1)
				lost := m.Drops("default")
				missing += m.Occurrences
				if rng.IntN(2) == 0 {
					before := rules.Drops{}
					before.Merge(&lost)
					before.Merge(&waiting)
					waiting = before
				} else {
					waiting.Merge(&lost)
				}
			}
			if rng.IntN(5) == 0 {
				g.AddDrops(now, store.KeyOf("fresh"), &waiting)
				waiting = rules.Drops{}
			}
		}
		g.AddDrops(epoch().Add(time.Second), store.KeyOf("fresh"), &waiting)
		want, got := theNotice(t, &plain), theNotice(t, &g)
		if got.Notice.Missing != missing || got.Total != want.Total || !got.Notice.First.Equal(want.Notice.First) ||
			sum(got.Notice.Reasons) != sum(want.Notice.Reasons) || got.Notice.About != want.Notice.About || got.Notice.Policy != want.Notice.Policy {
			t.Fatalf("seed %d: %+v %+v, want %d missing of\n%+v %+v", seed, got, got.Notice, missing, want, want.Notice)
		}
	}
}

// TestWhatIsMissingOfNoNoticeIsNowhere holds that it makes none, that it is of its own bucket only, and never more than what the
// notice reports; and that a notice that is written is written again, once.
func TestWhatIsMissingOfNoNoticeIsNowhere(t *testing.T) {
	b, l, now := quotaBucket(), someLimits(), epoch()
	w := someWrite("a", now)
	add := func(g *rules.Group, of store.Bucket, n int64) {
		m := rules.MissingOf(&w, &of, n)
		d := m.Drops("default")
		g.AddDrops(now, store.KeyOf("fresh"), &d)
	}
	var g rules.Group
	add(&g, b, 3)
	if len(g.Notices) != 0 || !g.Due().IsZero() {
		t.Errorf("a notice of nothing: %+v", g.Notices)
	}
	drops := rules.Dropped(now, w, &l, &b, 5)
	g.AddDrops(now, store.KeyOf("fresh"), &drops)
	other := b
	other.Policy = "another"
	add(&g, other, 2)
	p := theNotice(t, &g)
	if p.Notice.Missing != 0 {
		t.Errorf("%d are missing of another bucket", p.Notice.Missing)
	}
	g.Complete(now, store.KeyOf("fresh"), &p, store.Outcome{UID: "uid", ResourceVersion: "1"})
	if !g.Due().IsZero() {
		t.Fatal("it is pending after it was written")
	}
	add(&g, b, 2)
	if p = theNotice(t, &g); p.Notice.Missing != 2 || p.Total != 5 {
		t.Errorf("%d of %d are missing, want 2 of 5", p.Notice.Missing, p.Total)
	}
	add(&g, b, 100)
	if p = theNotice(t, &g); p.Notice.Missing != 5 {
		t.Errorf("%d of %d are missing, want all and no more", p.Notice.Missing, p.Total)
	}
	g.Complete(now, store.KeyOf("fresh"), &p, store.Outcome{UID: "uid", ResourceVersion: "2"})
	add(&g, b, 1)
	if !g.Due().IsZero() {
		t.Error("a notice that says that all is missing is written again")
	}
	silent := b
	silent.Silent = true
	if m := rules.MissingOf(&w, &silent, 3); m.Occurrences != 0 {
		t.Errorf("%d are missing of a bucket without notices", m.Occurrences)
	}
}

// TestWhatIsMissingIsKept holds that by the codec.
func TestWhatIsMissingIsKept(t *testing.T) {
	b, l, now := quotaBucket(), someLimits(), epoch()
	w := someWrite("a", now)
	var g rules.Group
	drops := rules.Dropped(now, w, &l, &b, 5)
	g.AddDrops(now, store.KeyOf("fresh"), &drops)
	m := rules.MissingOf(&w, &b, 3)
	lost := m.Drops("default")
	g.AddDrops(now, store.KeyOf("fresh"), &lost)
	kept, err := rules.Unmarshal(g.Append(nil))
	if err != nil || kept.Notices[0].Missing != 3 || g.Clone().Notices[0].Missing != 3 {
		t.Errorf("%+v, %v, want 3 missing", kept, err)
	}
}

// TestWhatIsMissingOfACombinedNotice holds that the notice of the same reason and type says so or, where that reason has had no
// place, the notice of all others.
func TestWhatIsMissingOfACombinedNotice(t *testing.T) {
	b, l, now := quotaBucket(), someLimits(), epoch()
	b.Combined, b.About.Namespace = true, "shop"
	var g rules.Group
	lost := map[string]int64{}
	for i := range 40 {
		w := someWrite(fmt.Sprint(i), now)
		w.Reason, w.Warning = fmt.Sprint("r", i), i%2 == 0
		d := rules.Dropped(now, w, &l, &b, 5)
		m := rules.MissingOf(&w, &b, 2)
		missing := m.Drops("default")
		var list rules.DropList // as a backlog has them
		list.Merge(&missing)
		list.Merge(&d)
		for j := range list {
			g.AddDrops(now, store.KeyOf(fmt.Sprint(i, j)), &list[j])
		}
		other := w
		other.Warning = !w.Warning // a type of which nothing is reported
		m = rules.MissingOf(&other, &b, 1)
		missing = m.Drops("default")
		g.AddDrops(now, store.KeyOf(fmt.Sprint(i)), &missing)
	}
	combined, total := 0, int64(0)
	for _, p := range g.Claim(store.Key{}, now.Add(time.Hour)) {
		lost[p.Notice.Reason] += p.Notice.Missing
		total += p.Total
		if p.Notice.Reason != "" {
			combined++
			if p.Notice.Missing != 2 || p.Total != 5 {
				t.Errorf("%s: %d of %d are missing, want 2 of 5", p.Notice.Reason, p.Notice.Missing, p.Total)
			}
		}
	}
	// What was missing of the other type before there was a notice of all others is nowhere.
	if rest := lost[""]; combined != 16 || total != 200 || rest != 24*3 {
		t.Errorf("%d combined notices, %d dropped and %d missing of all others, want 16, 200 and 72", combined, total, rest)
	}
}
