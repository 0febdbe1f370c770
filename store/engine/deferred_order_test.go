package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// writeWithCount is a write of a count under the name n, whose recorder began just now.
func writeWithCount(count int64) store.Write {
	w := someWrite("n", epoch())
	w.Count, w.FirstSeen = count, epoch()
	return w
}

// inOrder reports what is decided in each order of two reports, and says what is pending then.
func inOrder(t *testing.T, a, b engine.DeferredDecision, check func(t *testing.T, g *engine.Group)) {
	t.Helper()
	for i, order := range [][]engine.DeferredDecision{{a, b}, {b, a}} {
		for says, since := range map[string]int64{"known": epoch().UnixMicro(), "new": 0} {
			t.Run(fmt.Sprint(says, " register, order ", i), func(t *testing.T) {
				g := engine.Group{FirstWrite: since}
				for j := range order {
					g.Apply(epoch(), store.KeyOf(fmt.Sprint(j)), &order[j])
				}
				check(t, &g)
			})
		}
	}
}

// One replica drops the first occurrence, and another the fourth, for which it takes the first to be reported by a quota.
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
	for says, test := range map[string]struct {
		a, b engine.DeferredDecision
		want string
	}{
		"dropped both":         {drop(1, 1), drop(4, 3), "0 of Events, 4 of notices"},
		"dropped with another": {joined, drop(4, 3), "0 of Events, 5 of notices"},
		"dropped thrice":       {drop(3, 3), drop(4, 1), "0 of Events, 4 of notices"},
		"stored in the end":    {drop(1, 1), stored, "3 of Events, 1 of notices"},
	} {
		t.Run(says, func(t *testing.T) {
			inOrder(t, test.a, test.b, func(t *testing.T, g *engine.Group) {
				t.Helper()
				if got := inTotals(g); got != test.want {
					t.Errorf("%s, want %s", got, test.want)
				}
			})
		})
	}
	t.Run("in the middle", func(t *testing.T) {
		g := engine.Group{FirstWrite: epoch().UnixMicro()}
		for i, o := range []engine.DeferredDecision{drop(1, 1), drop(3, 1), drop(2, 1), drop(2, 1)} {
			g.Apply(epoch(), store.KeyOf(fmt.Sprint(i)), &o)
		}
		if got, want := inTotals(&g), "0 of Events, 3 of notices"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("in the middle of a stored Event", func(t *testing.T) {
		g := engine.Group{FirstWrite: epoch().UnixMicro()}
		first := engine.DeferredDecision{Write: writeWithCount(1), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Occurrences: 1}}
		for i, o := range []engine.DeferredDecision{first, drop(3, 1), drop(2, 1), drop(2, 1)} {
			g.Apply(epoch(), store.KeyOf(fmt.Sprint(i)), &o)
		}
		if got, want := inTotals(&g), "0 of Events, 2 of notices"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("once only", func(t *testing.T) {
		var g engine.Group
		for i, o := range []engine.DeferredDecision{drop(4, 3), drop(1, 1), drop(1, 1)} {
			g.Apply(epoch(), store.KeyOf(fmt.Sprint(i)), &o)
		}
		if got, want := inTotals(&g), "0 of Events, 4 of notices"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// In an outage one replica admits a CREATE, and another its UPDATE. Whichever is reported first, the higher count is what the
// API server has.
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
				t.Errorf("%+v, want it to know that the API server has 5", p)
			}
		}
		said := store.Stored{Count: 5}
		for _, p := range g.Claim(store.Key{}, epoch().Add(time.Hour)) {
			if p.Notice == nil {
				p.Adopt(said)
				g.Complete(epoch(), store.KeyOf("written"), &p, store.Outcome{UID: "uid", ResourceVersion: "2", Stored: said})
				said.Count = p.Total
			}
		}
		d, _ := g.Decide(epoch(), store.KeyOf("next"), someWrite("next", epoch()), &l, []engine.TakeResult{{OK: true}})
		if d.Verdict != store.Merge || d.Total != said.Count+1 {
			t.Errorf("%v into %d, want one more than the API server's %d", d.Verdict, d.Total, said.Count)
		}
	})
}

// A merge into an Event whose CREATE is under way is reported before that CREATE.
func TestMergeAppliedBeforeCreate(t *testing.T) {
	l := someLimits()
	l.Quotas = []store.Bucket{{Key: store.KeyOf("quota")}} // which may have refused the first
	create := engine.DeferredDecision{Write: writeWithCount(4), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Occurrences: 3}}
	merge := engine.DeferredDecision{
		Write: someWrite("m", epoch()), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Verdict: store.Merge, MergedInto: "n", Occurrences: 1},
	}
	inOrder(t, create, merge, func(t *testing.T, g *engine.Group) {
		t.Helper()
		d, _ := g.Decide(epoch(), store.KeyOf("next"), someWrite("next", epoch()), &l, []engine.TakeResult{{OK: true}})
		if d.Verdict != store.Merge || d.Total != 5 {
			t.Errorf("%v into %d, want one more than the three of the CREATE and the one that was merged", d.Verdict, d.Total)
		}
	})
}

// One replica merges into an Event whose CREATE then fails and is refused, and refuses more under its name. Another refuses the
// latest, for all that it knows of.
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
		if got, want := inTotals(&g), "1 of Events, 4 of notices"; got != want {
			t.Errorf("%s where the other reports after %d, want %s", got, at, want)
		}
	}
	// The first of them was stored after all, and says what was merged. A third replica knows of nothing either.
	var g engine.Group
	create := engine.DeferredDecision{Write: writeWithCount(1), Limits: &l, DecidedAt: epoch(), Decision: store.Decision{Occurrences: 1}}
	for i, o := range []engine.DeferredDecision{merge, drop(3, 3), create, drop(3, 3)} {
		g.Apply(epoch(), store.KeyOf(fmt.Sprint(i)), &o)
	}
	if got, want := inTotals(&g), "0 of Events, 3 of notices"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A CREATE is reported after the settler has written the Event for an UPDATE of it. What was written says what the API server has.
func TestCreateAppliedAfterSettlerWrite(t *testing.T) {
	l := someLimits()
	merge := engine.DeferredDecision{ // of the first four, before another replica let the Event through
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
		t.Errorf("%+v, want one more than was written", writes)
	}
}

// An Event is stored by one replica after another has merged its first two occurrences elsewhere, its fourth is let through by a third
// whose clock is behind, and its fifth is merged. In whatever order the others are reported, its count is corrected.
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
	for says, order := range map[string][]*engine.DeferredDecision{
		"the CREATE first": {fifth, &create, fourth}, "the UPDATE first": {fifth, fourth, &create}, "as it happened": {&create, fourth, fifth},
	} {
		var g engine.Group
		later := epoch().Add(time.Second)
		for i, o := range append([]*engine.DeferredDecision{&merge}, order...) {
			g.Apply(later, store.KeyOf(fmt.Sprint(i)), o)
		}
		writes := g.Claim(store.Key{}, later.Add(time.Hour))
		if i := slices.IndexFunc(writes, func(p store.PendingWrite) bool { return p.Name == "n" }); i < 0 || writes[i].Total != 3 {
			t.Errorf("%s: %+v is written, want 3 of n", says, writes)
		}
	}
}

// An UPDATE that was admitted again without a token takes none when it is reported, whatever the settler has written between.
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
		t.Errorf("the spam filter is at %+v, and was at %+v", after, before)
	}
}

// Two settlers read an Event for a register that was lost. What it said comes to the register once, whoever has written since.
func TestStoredCountIsAdoptedOnce(t *testing.T) {
	l, d := someLimits(), store.Decision{Verdict: store.Merge, MergedInto: "lost", Occurrences: 1}
	for says, said := range map[string]store.Stored{"not noted": {Count: 5}, "noted": {Count: 5, Merged: 2}} {
		t.Run(says, func(t *testing.T) {
			var g engine.Group
			for i := range 2 {
				g.Apply(epoch(), store.Key{}, &engine.DeferredDecision{Write: someWrite(fmt.Sprint(i), epoch()), Limits: &l, Decision: d, DecidedAt: epoch()})
			}
			due := epoch().Add(time.Hour)
			writes := g.Claim(store.Key{}, due)
			one, other := writes[0], writes[0]
			read := store.Outcome{Result: store.Read, UID: "uid", ResourceVersion: "1", Stored: said}
			g.Complete(epoch(), store.Key{}, &one, read)
			writes = g.Claim(store.Key{}, due)
			if len(writes) != 1 || writes[0].Partial || writes[0].Total != 7 || writes[0].UID != "uid" || writes[0].ResourceVersion != "1" {
				t.Fatalf("%+v, want 7 to be written into the version that was read", writes)
			}
			one = writes[0]
			g.Complete(epoch(), store.Key{}, &one, store.Outcome{UID: "uid", ResourceVersion: "2"})
			read.ResourceVersion, read.Stored = "2", store.Stored{Count: one.Total, Merged: one.Merged()}
			g.Complete(epoch(), store.Key{}, &other, read)
			for _, p := range g.Claim(store.Key{}, due) {
				if p.Total != 7 {
					t.Errorf("%+v, want no more than 7", p)
				}
			}
			again, _ := g.Decide(epoch(), store.Key{}, someWrite("again", epoch()), &l, nil)
			if again.Verdict != store.Merge || again.Total != 8 {
				t.Errorf("%+v, want the 8th", again)
			}
		})
	}
}

// A failover puts the register of a notice back. What the settler has read of the notice is not lowered by the next drop.
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
		t.Errorf("%d of which %d written, want 9 and 8", p.Total, p.Written)
	}
}

// Notices have names of their own, however many a register has had.
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
		t.Errorf("%d names of 4 notices", len(names))
	}
}
