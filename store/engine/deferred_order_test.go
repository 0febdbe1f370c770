package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// writeWithCount returns a write of a count under the name n, whose recorder has just started to count.
func writeWithCount(count int64) store.Write {
	w := someWrite("n", epoch())
	w.Count, w.FirstSeen = count, epoch()
	return w
}

// inOrder applies two decisions in both orders, to a new register and to a known one, and checks each result.
func inOrder(t *testing.T, a, b engine.DeferredDecision, check func(t *testing.T, g *engine.Group)) {
	t.Helper()
	for i, order := range [][]engine.DeferredDecision{{a, b}, {b, a}} {
		for name, since := range map[string]int64{"known": epoch().UnixMicro(), "new": 0} {
			t.Run(fmt.Sprint(name, " register, order ", i), func(t *testing.T) {
				g := engine.Group{FirstWrite: since}
				for j := range order {
					g.Apply(epoch(), store.KeyOf(fmt.Sprint(j)), &order[j])
				}
				check(t, &g)
			})
		}
	}
}

// One replica drops the first occurrence, and another the fourth. The other assumes that a quota's notice reports the first.
func TestAssumedReportedOccurrencesCountOnce(t *testing.T) {
	l := someLimits()
	l.Quotas = []store.Bucket{{Key: store.KeyOf("quota")}}
	drop := func(count, occurrences int64) engine.DeferredDecision {
		d := store.Decision{Verdict: store.Drop, RefusedBy: &l.SpamFilter, Occurrences: occurrences}
		return engine.DeferredDecision{Write: writeWithCount(count), Limits: &l, Decision: d, DecidedAt: epoch()}
	}
	stored := engine.DeferredDecision{Write: writeWithCount(4), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Occurrences: 3}}
	joined := drop(1, 1)
	joined.Write.Name = "other"
	first := drop(1, 1)
	joined.Join(&first)
	joined.Decision.Occurrences++
	for name, test := range map[string]struct {
		a, b engine.DeferredDecision
		want string
	}{
		"both dropped":         {drop(1, 1), drop(4, 3), "0 of Events, 4 of notices"},
		"dropped with another": {joined, drop(4, 3), "0 of Events, 5 of notices"},
		"three dropped first":  {drop(3, 3), drop(4, 1), "0 of Events, 4 of notices"},
		"the fourth stored":    {drop(1, 1), stored, "3 of Events, 1 of notices"},
	} {
		t.Run(name, func(t *testing.T) {
			inOrder(t, test.a, test.b, func(t *testing.T, g *engine.Group) {
				t.Helper()
				if got := formatTotals(g); got != test.want {
					t.Errorf("%s, want %s", got, test.want)
				}
			})
		})
	}
	t.Run("a gap in the counts", func(t *testing.T) {
		g := engine.Group{FirstWrite: epoch().UnixMicro()}
		for i, o := range []engine.DeferredDecision{drop(1, 1), drop(3, 1), drop(2, 1), drop(2, 1)} {
			g.Apply(epoch(), store.KeyOf(fmt.Sprint(i)), &o)
		}
		if got, want := formatTotals(&g), "0 of Events, 3 of notices"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("a gap in the counts of a stored Event", func(t *testing.T) {
		g := engine.Group{FirstWrite: epoch().UnixMicro()}
		first := engine.DeferredDecision{Write: writeWithCount(1), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Occurrences: 1}}
		for i, o := range []engine.DeferredDecision{first, drop(3, 1), drop(2, 1), drop(2, 1)} {
			g.Apply(epoch(), store.KeyOf(fmt.Sprint(i)), &o)
		}
		if got, want := formatTotals(&g), "0 of Events, 2 of notices"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("applied twice", func(t *testing.T) {
		var g engine.Group
		for i, o := range []engine.DeferredDecision{drop(4, 3), drop(1, 1), drop(1, 1)} {
			g.Apply(epoch(), store.KeyOf(fmt.Sprint(i)), &o)
		}
		if got, want := formatTotals(&g), "0 of Events, 4 of notices"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// During an outage, one replica admits a CREATE and another its UPDATE. In both orders of applying them, the API server is
// known to have the higher count.
func TestCreateAppliedAfterItsUpdate(t *testing.T) {
	l := someLimits()
	l.Quotas = []store.Bucket{{Key: store.KeyOf("quota")}}
	create := engine.DeferredDecision{Write: writeWithCount(4), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Occurrences: 3}}
	update := engine.DeferredDecision{Write: writeWithCount(5), Limits: &l, DecidedAt: epoch().Add(time.Second)}
	update.Write.Update = &store.Update{ByRecorder: true, UID: "uid", Stored: store.Stored{Count: 4}, ContentKey: store.KeyOf("same")}
	drop := engine.DeferredDecision{
		Write: writeWithCount(3), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Verdict: store.Drop, RefusedBy: &l.SpamFilter, Occurrences: 3},
	}
	inOrder(t, create, update, func(t *testing.T, g *engine.Group) {
		t.Helper()
		g.Apply(epoch(), store.KeyOf("drop"), &drop)
		for _, p := range g.Claim(store.Key{}, epoch().Add(time.Hour)) {
			if p.Notice == nil && p.Written != 5 {
				t.Errorf("%+v, want Written 5, as the API server has that", p)
			}
		}
		stored := store.Stored{Count: 5}
		for _, p := range g.Claim(store.Key{}, epoch().Add(time.Hour)) {
			if p.Notice == nil {
				p.Adopt(stored)
				g.Complete(epoch(), store.KeyOf("written"), &p, store.Outcome{UID: "uid", ResourceVersion: "2", Stored: stored})
				stored.Count = p.Total
			}
		}
		d, _ := g.Decide(epoch(), store.KeyOf("next"), someWrite("next", epoch()), &l, []engine.TakeResult{{OK: true}})
		if d.Verdict != store.Merge || d.Total != stored.Count+1 {
			t.Errorf("%v with total %d, want a merge with one more than the API server's %d", d.Verdict, d.Total, stored.Count)
		}
	})
}

// A merge into an Event is applied before the CREATE of that Event.
func TestMergeAppliedBeforeCreate(t *testing.T) {
	l := someLimits()
	l.Quotas = []store.Bucket{{Key: store.KeyOf("quota")}} // it may have refused the first occurrence
	create := engine.DeferredDecision{Write: writeWithCount(4), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Occurrences: 3}}
	merge := engine.DeferredDecision{
		Write: someWrite("m", epoch()), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Verdict: store.Merge, MergedInto: "n", Occurrences: 1},
	}
	inOrder(t, create, merge, func(t *testing.T, g *engine.Group) {
		t.Helper()
		d, _ := g.Decide(epoch(), store.KeyOf("next"), someWrite("next", epoch()), &l, []engine.TakeResult{{OK: true}})
		if d.Verdict != store.Merge || d.Total != 5 {
			t.Errorf("%v with total %d, want a merge with 5: three of the CREATE, one merged, and this one", d.Verdict, d.Total)
		}
	})
}

// One replica merges into an Event whose CREATE then fails and is refused, and refuses more under that name. Another replica
// knows nothing of that, and refuses the last write with all of its count.
func TestMergeIntoRefusedEvent(t *testing.T) {
	l := someLimits()
	merge := engine.DeferredDecision{
		Write: someWrite("m", epoch()), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Verdict: store.Merge, MergedInto: "n", Occurrences: 1},
	}
	drop := func(count, occurrences int64) engine.DeferredDecision {
		d := store.Decision{Verdict: store.Drop, RefusedBy: &l.SpamFilter, Occurrences: occurrences}
		return engine.DeferredDecision{Write: writeWithCount(count), Limits: &l, Decision: d, DecidedAt: epoch()}
	}
	one, other := []engine.DeferredDecision{merge, drop(1, 1), drop(3, 2)}, drop(4, 4)
	for at := range len(one) + 1 {
		g := engine.Group{FirstWrite: epoch().UnixMicro()}
		for i, o := range slices.Insert(slices.Clone(one), at, other) {
			g.Apply(epoch(), store.KeyOf(fmt.Sprint(i)), &o)
		}
		if got, want := formatTotals(&g), "1 of Events, 4 of notices"; got != want {
			t.Errorf("the other's decision applied at position %d: %s, want %s", at, got, want)
		}
	}
	// The CREATE was stored after all, so the Event reports the merge. A third replica knows nothing of that either.
	var g engine.Group
	create := engine.DeferredDecision{Write: writeWithCount(1), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Occurrences: 1}}
	for i, o := range []engine.DeferredDecision{merge, drop(3, 3), create, drop(3, 3)} {
		g.Apply(epoch(), store.KeyOf(fmt.Sprint(i)), &o)
	}
	if got, want := formatTotals(&g), "0 of Events, 3 of notices"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A CREATE is applied after the settler has written the count of an UPDATE of the same Event. The API server is known to have
// the written count.
func TestCreateAppliedAfterSettlerWrite(t *testing.T) {
	l := someLimits()
	merge := engine.DeferredDecision{ // of the first four, before another replica admits the Event
		Write: writeWithCount(4), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Verdict: store.Merge, MergedInto: "m", Occurrences: 4},
	}
	update := func(count int64) *engine.DeferredDecision {
		o := engine.DeferredDecision{Write: writeWithCount(count), Limits: &l, DecidedAt: epoch().Add(time.Second), Decision: store.Decision{Verdict: store.Merge, MergedInto: "n"}}
		o.Write.Update = &store.Update{ByRecorder: true, UID: "uid", Stored: store.Stored{Count: 7}}
		return &o
	}
	var g engine.Group
	g.Apply(epoch(), store.KeyOf("merge"), &merge)
	g.Apply(epoch(), store.KeyOf("update"), update(10))
	later := epoch().Add(time.Minute)
	for _, p := range g.Claim(store.Key{}, later.Add(time.Hour)) {
		g.Complete(later, store.KeyOf(p.Name), &p, store.Outcome{UID: "uid", ResourceVersion: "2", Stored: store.Stored{Count: p.Total, Merged: p.Merged()}})
	}
	create := engine.DeferredDecision{Write: writeWithCount(7), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Occurrences: 7}}
	g.Apply(later, store.KeyOf("create"), &create)
	g.Apply(later, store.KeyOf("again"), update(11))
	writes := g.Claim(store.Key{}, later.Add(time.Hour))
	if len(writes) != 1 || writes[0].Name != "n" || writes[0].Total != writes[0].Written+1 {
		t.Errorf("%+v, want one write of one more than was written", writes)
	}
}

// Several replicas decide five occurrences of one Event. Two are merged elsewhere, the third is stored, and a replica whose
// clock is behind admits the fourth. The fifth is merged. The count is correct in each order of applying these decisions.
func TestSlowClockHidesNoLaterWrite(t *testing.T) {
	l := someLimits()
	merge := engine.DeferredDecision{Write: writeWithCount(2), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Verdict: store.Merge, MergedInto: "m", Occurrences: 2}}
	create := engine.DeferredDecision{Write: writeWithCount(3), Limits: &l, DecidedAt: epoch().Add(100 * time.Millisecond), Decision: store.Decision{Occurrences: 3}}
	update := func(count int64, after time.Duration, verdict store.Verdict) *engine.DeferredDecision {
		o := &engine.DeferredDecision{Write: writeWithCount(count), Limits: &l, DecidedAt: epoch().Add(after), Decision: store.Decision{Verdict: verdict, MergedInto: "n"}}
		o.Write.Update = &store.Update{ByRecorder: true, UID: "uid", Stored: store.Stored{Count: count - 1}}
		return o
	}
	fourth, fifth := update(4, time.Millisecond, store.Admit), update(5, 110*time.Millisecond, store.Merge)
	for name, order := range map[string][]*engine.DeferredDecision{
		"the CREATE first": {fifth, &create, fourth}, "the UPDATE first": {fifth, fourth, &create}, "as it happened": {&create, fourth, fifth},
	} {
		var g engine.Group
		later := epoch().Add(time.Second)
		for i, o := range append([]*engine.DeferredDecision{&merge}, order...) {
			g.Apply(later, store.KeyOf(fmt.Sprint(i)), o)
		}
		writes := g.Claim(store.Key{}, later.Add(time.Hour))
		if i := slices.IndexFunc(writes, func(p store.PendingWrite) bool { return p.Name == "n" }); i < 0 || writes[i].Total != 3 {
			t.Errorf("%s: pending %+v, want a total of 3 for n", name, writes)
		}
	}
}

// An UPDATE that was admitted again as a retry takes no token when it is applied, even if the settler has written meanwhile.
func TestDeferredRetryTakesNoToken(t *testing.T) {
	l := someLimits()
	create := engine.DeferredDecision{Write: writeWithCount(1), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Occurrences: 1}}
	update := engine.DeferredDecision{Write: writeWithCount(5), Limits: &l, DecidedAt: epoch().Add(time.Second)}
	update.Write.Update = &store.Update{ByRecorder: true, UID: "uid", Stored: store.Stored{Count: 1}, ContentKey: store.KeyOf("same")}
	again := update
	again.Decision.Retry = true
	var g engine.Group
	g.Apply(epoch(), store.KeyOf("create"), &create)
	g.Apply(epoch(), store.KeyOf("update"), &update)
	g.Events[0].Written = 2 // by a settler
	before := g.SpamState(l.SpamFilter.Key)
	g.Apply(epoch(), store.KeyOf("again"), &again)
	if after := g.SpamState(l.SpamFilter.Key); after != before {
		t.Errorf("the bucket of the spam filter is %+v, want it unchanged at %+v", after, before)
	}
}

// Two settlers read a stored Event because its register was lost. The register adopts the stored count once, even if one
// settler has written meanwhile.
func TestStoredCountIsAdoptedOnce(t *testing.T) {
	l, d := someLimits(), store.Decision{Verdict: store.Merge, MergedInto: "lost", Occurrences: 1}
	for name, stored := range map[string]store.Stored{"without annotation": {Count: 5}, "with annotation": {Count: 5, Merged: 2}} {
		t.Run(name, func(t *testing.T) {
			var g engine.Group
			for i := range 2 {
				g.Apply(epoch(), store.Key{}, &engine.DeferredDecision{Write: someWrite(fmt.Sprint(i), epoch()), Limits: &l, Decision: d, DecidedAt: epoch()})
			}
			due := epoch().Add(time.Hour)
			writes := g.Claim(store.Key{}, due)
			one, other := writes[0], writes[0]
			read := store.Outcome{Result: store.Read, UID: "uid", ResourceVersion: "1", Stored: stored}
			g.Complete(epoch(), store.Key{}, &one, read)
			writes = g.Claim(store.Key{}, due)
			if len(writes) != 1 || writes[0].Partial || writes[0].Total != 7 || writes[0].UID != "uid" || writes[0].ResourceVersion != "1" {
				t.Fatalf("%+v, want one write of 7 to the version that was read", writes)
			}
			one = writes[0]
			g.Complete(epoch(), store.Key{}, &one, store.Outcome{UID: "uid", ResourceVersion: "2"})
			read.ResourceVersion, read.Stored = "2", store.Stored{Count: one.Total, Merged: one.Merged()}
			g.Complete(epoch(), store.Key{}, &other, read)
			for _, p := range g.Claim(store.Key{}, due) {
				if p.Total != 7 {
					t.Errorf("%+v, want a total of 7", p)
				}
			}
			again, _ := g.Decide(epoch(), store.Key{}, someWrite("again", epoch()), &l, nil)
			if again.Verdict != store.Merge || again.Total != 8 {
				t.Errorf("%+v, want a merge with total 8", again)
			}
		})
	}
}

// A failover loses the latest state of a notice's register. The next drop does not lower the count that the settler has read
// from the stored notice.
func TestNoticeContinuesFromStoredCount(t *testing.T) {
	l := someLimits()
	drop := engine.DeferredDecision{Write: writeWithCount(1), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Verdict: store.Drop, RefusedBy: &l.SpamFilter, Occurrences: 1}}
	var g engine.Group
	g.Apply(epoch(), store.KeyOf("a"), &drop)
	p := g.Claim(store.Key{}, epoch().Add(time.Hour))[0]
	g.Complete(epoch(), store.Key{}, &p, store.Outcome{UID: "uid", ResourceVersion: "1", Stored: store.Stored{Count: 8}})
	drop.Write.Name = "other"
	g.Apply(epoch(), store.KeyOf("b"), &drop)
	p = g.Claim(store.Key{}, epoch().Add(time.Hour))[0]
	if p.Total != 9 || p.Written != 8 {
		t.Errorf("total %d, written %d; want 9 and 8", p.Total, p.Written)
	}
}

// Notices have unique names even with a high NextID.
func TestNoticeNamesAreUnique(t *testing.T) {
	l, names := someLimits(), map[string]bool{}
	g := engine.Group{NextID: 1 << 40}
	for i := range 4 {
		d := engine.NewDrops(epoch(), writeWithCount(1), &l, &store.Bucket{Name: fmt.Sprint(i)}, 1)
		g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
	}
	for _, p := range g.Claim(store.Key{}, epoch().Add(time.Hour)) {
		names[p.Name] = true
	}
	if len(names) != 4 {
		t.Errorf("4 notices have %d names, want 4", len(names))
	}
}
