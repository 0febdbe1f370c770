package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// TestCombinedNoticesCountEveryDrop drops Events of many reasons and types, in several windows, while the settler writes often,
// seldom or never. Each occurrence is counted in one notice, a combined notice counts only its own reason and type, and the
// number of notices in a register is bounded.
func TestCombinedNoticesCountEveryDrop(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		b, l := quotaBucket(), someLimits()
		b.Combined = true
		if b.NoticeObject.Namespace = "shop"; rng.IntN(2) == 0 {
			b.NoticeObject.Namespace = "" // several namespaces share it
		}
		l.Window = time.Minute
		var g engine.Group
		type reasonAndType struct {
			reason  string
			warning bool
		}
		dropped, reported, lastTotals := map[reasonAndType]int64{}, map[reasonAndType]int64{}, map[string]int64{}
		total := int64(0)
		settleEvery, reasons := rng.IntN(3), 1+rng.IntN(40)
		settleAll := func(now time.Time) {
			for _, p := range g.Claim(store.Key{}, now.Add(time.Hour)) {
				reported[reasonAndType{p.Notice.Reason, p.Notice.Warnings && p.Notice.Reason != ""}] += p.Total - lastTotals[p.Name]
				lastTotals[p.Name] = p.Total
				g.Complete(now, store.KeyOf(now.String()), &p, store.Outcome{Result: store.Written, UID: "u", ResourceVersion: "1"})
			}
		}
		now := epoch()
		for i := range 400 {
			now = now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
			w := someWrite(fmt.Sprint(i), now)
			w.Namespace = fmt.Sprint("ns-", rng.IntN(3))
			w.Reason, w.Warning = fmt.Sprint("r", rng.IntN(reasons)), rng.IntN(2) == 0
			var list engine.DropList
			for range 1 + rng.IntN(3) {
				d := engine.NewDrops(now, w, &l, &b, 1+rng.Int64N(5))
				dropped[reasonAndType{w.Reason, w.Warning}] += d.Total
				total += d.Total
				list.Merge(&d)
			}
			for j := range list {
				g.AddDrops(now, store.KeyOf(fmt.Sprint(i, j)), &list[j])
			}
			if combined := countCombined(&g); combined > 24 || len(g.Notices) > 24+8 {
				t.Fatalf("seed %d: the register has %d notices, %d of them combined", seed, len(g.Notices), combined)
			}
			if settleEvery > 0 && rng.IntN(10*settleEvery) == 0 {
				settleAll(now)
			}
		}
		settleAll(now)
		for key, n := range reported {
			total -= n
			if key.reason != "" && n > dropped[key] {
				t.Errorf("seed %d: notices count %d drops of %v, want at most %d", seed, n, key, dropped[key])
			}
			if key.reason != "" && reasons < 7 && settleEvery > 0 && b.NoticeObject.Namespace != "" && n != dropped[key] && reported[reasonAndType{}] == 0 {
				t.Errorf("seed %d: notices count %d drops of %v, want %d, as no notice counts several reasons", seed, n, key, dropped[key])
			}
		}
		if total != 0 {
			t.Errorf("seed %d: %d occurrences are in no notice", seed, total)
		}
		if reasons < 7 && settleEvery > 0 && b.NoticeObject.Namespace != "" && reported[reasonAndType{}] != 0 {
			t.Errorf("seed %d: %d drops of few reasons are in a notice without a reason, want none", seed, reported[reasonAndType{}])
		}
	}
}

func countCombined(g *engine.Group) (n int) {
	for i := range g.Notices {
		if g.Notices[i].Reason != "" {
			n++
		}
	}
	return n
}

// TestCombinedNoticesPerReasonAreBounded collects drops in a backlog, of more reasons than a bucket has combined notices.
func TestCombinedNoticesPerReasonAreBounded(t *testing.T) {
	t.Parallel()
	var list engine.DropList
	b, l := quotaBucket(), someLimits()
	b.Combined = true
	for i := range 1000 {
		w := someWrite(fmt.Sprint(i), epoch())
		w.Reason = fmt.Sprint("r", i)
		d := engine.NewDrops(epoch(), w, &l, &b, 1)
		list.Merge(&d)
	}
	total := int64(0)
	for i := range list {
		total += list[i].Total
	}
	if len(list) != 17 || total != 1000 || list[16].Reason != "" || list[16].Total != 984 {
		t.Errorf("%d entries of %d occurrences, the last of %d with reason %q; want 17 of 1000, the last of 984 without a reason", len(list), total, list[len(list)-1].Total, list[len(list)-1].Reason)
	}
}

// TestCombinedNoticesHaveShorterLists checks that all combined notices of a bucket fit into a register if names have a usual
// length.
func TestCombinedNoticesHaveShorterLists(t *testing.T) {
	t.Parallel()
	var g engine.Group
	b, l := quotaBucket(), someLimits()
	b.Combined, b.NoticeObject.Namespace = true, "shop"
	for i := range 5000 {
		w := someWrite(fmt.Sprint(i), epoch())
		w.Reason, w.Source.Component = fmt.Sprint("FailedToReconcile", i%16), fmt.Sprint("controller-", i%100)
		w.InvolvedObject = store.Object{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("web-7d9f8c4b5-", i), UID: fmt.Sprint(i)}
		w.Workload = store.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: fmt.Sprint("web-", i%50)}
		d := engine.NewDrops(epoch(), w, &l, &b, 1)
		g.AddDrops(epoch(), store.KeyOf(fmt.Sprint(i)), &d)
	}
	for i := range g.Notices {
		if n := &g.Notices[i]; len(n.Sources) != 4 || len(n.Workloads) != 4 || len(n.Objects) != 3 {
			t.Errorf("the notice of %s lists %d sources, %d workloads and %d objects, want 4, 4 and 3", n.Reason, len(n.Sources), len(n.Workloads), len(n.Objects))
		}
	}
	if size := g.Size(); len(g.Notices) != 16 || size > engine.MaxGroupBytes*2/3 {
		t.Errorf("%d notices take %d bytes, want 16 in at most two thirds of MaxGroupBytes", len(g.Notices), size)
	}
}

// TestLargestCombinedNoticesFitMaxBytes fills all notices of a register with texts of the maximal length.
func TestLargestCombinedNoticesFitMaxBytes(t *testing.T) {
	t.Parallel()
	var g engine.Group
	l := someLimits()
	for i := range 3000 {
		b := quotaBucket()
		b.Combined, b.NoticeObject.Namespace = true, "shop"
		w := someWrite(longName(1024, i), epoch())
		w.Reason = longName(128, i%16)
		w.Source.Component = longName(253, i)
		w.InvolvedObject = store.Object{APIVersion: longName(253, i), Kind: longName(253, i), Namespace: "shop", Name: longName(253, i), UID: longName(253, i)}
		w.Workload = store.Object{APIVersion: longName(253, i), Kind: longName(63, i), Namespace: longName(63, i), Name: longName(253, i), UID: longName(64, i)}
		d := engine.NewDrops(epoch(), w, &l, &b, 1)
		g.AddDrops(epoch(), store.KeyOf(fmt.Sprint(i)), &d)
	}
	if n := occurrences(&g); g.Size() > engine.MaxGroupBytes || n != 3000 || countCombined(&g) != 16 {
		t.Errorf("%d bytes, %d occurrences in %d combined notices; want at most %d bytes, 3000 in 16", g.Size(), n, countCombined(&g), engine.MaxGroupBytes)
	}
	if encoded := len(g.Append(nil)); int64(encoded) > g.Size() {
		t.Errorf("%d bytes encoded, want at most the %d of Size", encoded, g.Size())
	}
}
