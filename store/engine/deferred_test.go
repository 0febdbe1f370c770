package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// decidedAndApplied has two groups: one that decides each write, and one to which the decisions are applied.
type decidedAndApplied struct {
	*randomSteps
	decided, applied engine.Group
	limits           store.Limits
	n                int
}

// TestApplyMatchesDecide checks that decisions from elsewhere, once applied, lead to the same pending writes and the same later
// decisions as if they had been made here.
func TestApplyMatchesDecide(t *testing.T) {
	for seed := range uint64(40) {
		p := &decidedAndApplied{randomSteps: newRandomSteps(seed, false), limits: someLimits()}
		p.limits.SimilarThreshold, p.limits.ReservePerReason, p.limits.ChargeMerged = 3, int(seed%2), seed%3 == 0
		p.limits.SpamFilter.Limit = store.Limit{Burst: 1 + p.rng.IntN(20), Every: time.Minute}
		p.limits.Quotas = []store.Bucket{{Limit: store.Limit{Burst: 9, Every: time.Minute}, Key: store.KeyOf("quota"), Name: "quota"}}
		for range 100 {
			p.step(t)
		}
		if got, want := formatWrites(&p.applied), formatWrites(&p.decided); got != want {
			t.Fatalf("seed %d: pending after Apply:\n%s\nwant as after Decide:\n%s", seed, got, want)
		}
		for i := range 20 {
			w := p.next()
			d, _ := p.decided.Decide(p.now, store.KeyOf("a", fmt.Sprint(i)), w, &p.limits, p.grants())
			r, _ := p.applied.Decide(p.now, store.KeyOf("a", fmt.Sprint(i)), w, &p.limits, p.grants())
			if d != r {
				t.Fatalf("seed %d, later write %d: %+v after Apply, want %+v as after Decide", seed, i, r, d)
			}
		}
	}
}

func (p *decidedAndApplied) next() store.Write {
	p.n++
	w := someWrite(fmt.Sprint("e", p.rng.IntN(20)), p.now)
	w.Count, w.FirstSeen = 1+p.rng.Int64N(1+int64(p.n)), epoch()
	w.Reason, w.Text = fmt.Sprint("r", p.rng.IntN(3)), fmt.Sprint("m", p.rng.IntN(5))
	w.SimilarKey, w.MessageKey, w.ExactKey = store.KeyOf(w.Reason), store.KeyOf(w.Text), store.KeyOf(w.Reason, w.Text)
	if p.chance(4) {
		w.Update = &store.Update{ByRecorder: p.chance(2), Stored: store.Stored{Count: 1 + p.rng.Int64N(w.Count)}, ContentKey: store.KeyOf(fmt.Sprint(p.n))}
	}
	return w
}

func (p *decidedAndApplied) grants() []engine.TakeResult { return []engine.TakeResult{{OK: true}} }

func (p *decidedAndApplied) step(t *testing.T) {
	t.Helper()
	p.now = p.now.Add(time.Duration(p.rng.Int64N(int64(time.Minute))))
	w, fresh := p.next(), store.KeyOf("fresh", fmt.Sprint(p.n))
	grants := []engine.TakeResult{{OK: !p.chance(5)}}
	d, changed := p.decided.Decide(p.now, fresh, w, &p.limits, grants)
	if !changed || d.Retry {
		return
	}
	p.applied.Apply(p.now, fresh, &engine.DeferredDecision{Write: w, Limits: &p.limits, Decision: d, DecidedAt: p.now})
}

// formatWrites returns the pending writes of a group, sorted.
func formatWrites(g *engine.Group) string {
	var lines []string
	for _, p := range g.Claim(store.Key{}, time.UnixMicro(1<<60)) {
		target := p.Name
		if p.Notice != nil {
			target = "notice " + formatTallies(p.Notice.Reasons)
		}
		lines = append(lines, fmt.Sprintf("%s: %d, own %d, written %d, %s, due %v\n", target, p.Total, p.Own, p.Written, formatTallies(p.Messages), p.Due.Sub(epoch())))
	}
	slices.Sort(lines)
	return fmt.Sprint(lines)
}

func formatTallies(joinedDecision []store.Tally) string {
	lines := make([]string, len(joinedDecision))
	for i, t := range joinedDecision {
		lines[i] = fmt.Sprintf("%s %d", t.Name, t.Count)
	}
	return strings.Join(lines, ", ")
}

func TestApply(t *testing.T) {
	l := someLimits()
	merge, drop := store.Decision{Verdict: store.Merge, MergedInto: "a"}, store.Decision{Verdict: store.Drop, RefusedBy: &l.SpamFilter}
	late := l.IdenticalWindow + time.Minute
	for _, test := range []struct {
		name        string
		known       string // names of the Events that the group knows, a letter each; those after the first were merged
		d           store.Decision
		count       int64
		occurrences int64
		others      int64
		applied     time.Duration // a minute after the decision, or at the same time
		want        string
	}{
		{"a merge counts the merges that were joined with it", "a", merge, 1, 7, 6, 0, "[a: 8, own 1, written 1, , due 10s\n]"},
		{"a drop counts the drops that were joined with it", "a", drop, 1, 7, 6, 0, "[notice Failed 7: 7, own 7, written 0, , due 10s\n]"},
		{"a late merge uses the refused names of its time", "ab", merge, 4, 3, 0, late, "[a: 5, own 1, written 1, , due 10s\n]"},
		{
			"a late drop uses the refused names of its time", "ab", drop, 4, 3, 0, late,
			"[a: 2, own 1, written 1, , due 10s\n notice Failed 3: 3, own 3, written 0, , due 1h1m10s\n]",
		},
		{
			"a late stored Event uses the refused names of its time", "ab", store.Decision{}, 4, 0, 0, late,
			"[a: 2, own 1, written 1, , due 10s\n b: 3, own 4, written 4, , due 1h0m10s\n]",
		},
		{"a register without names counts only the occurrences of a merge", "", merge, 4, 3, 0, 0, "[a: 3, own 0, written 0, , due 10s\n]"},
		{"a register without names counts only the occurrences of a drop", "", drop, 4, 3, 0, 0, "[notice Failed 3: 3, own 3, written 0, , due 10s\n]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var g engine.Group
			for _, name := range test.known {
				g.Decide(epoch(), store.KeyOf(string(name)), someWrite(string(name), epoch()), &l, nil)
			}
			o := engine.DeferredDecision{Write: someWrite("b", epoch()), Limits: &l, Decision: test.d, DecidedAt: epoch().Add(max(0, test.applied-time.Minute)), Others: test.others}
			o.Write.Count, o.Decision.Occurrences = test.count, test.occurrences
			if g.Apply(epoch().Add(test.applied), store.KeyOf("report"), &o); formatWrites(&g) != test.want {
				t.Errorf("pending %q, want %q", formatWrites(&g), test.want)
			}
		})
	}
}

// A merge into an Event that the register does not know, because the register was lost, counts from zero. The stored count is
// added when the settler reads the Event.
func TestApplyMergeIntoUnknownEvent(t *testing.T) {
	l, d := someLimits(), store.Decision{Verdict: store.Merge, MergedInto: "lost", Occurrences: 1}
	var g engine.Group
	for i := range 3 {
		g.Apply(epoch(), store.Key{}, &engine.DeferredDecision{Write: someWrite(fmt.Sprint(i), epoch()), Limits: &l, Decision: d, DecidedAt: epoch()})
	}
	writes := g.Claim(store.Key{}, epoch().Add(time.Hour))
	if len(writes) != 1 || writes[0].Total != 3 || !writes[0].Partial || writes[0].Name != "lost" {
		t.Fatalf("%+v, want one partial write of 3 to the Event lost", writes)
	}
	p, lines := writes[0], store.Stored{Count: 10, Merged: 4}
	p.Adopt(lines)
	if p.Total != 13 || p.Own != 6 {
		t.Errorf("total %d, own %d; want 13 and 6", p.Total, p.Own)
	}
	g.Complete(epoch(), store.Key{}, &p, store.Outcome{UID: "uid", ResourceVersion: "1", Stored: lines})
	again, _ := g.Decide(epoch(), store.Key{}, someWrite("again", epoch()), &l, nil)
	if again.Verdict != store.Merge || again.Total != 14 {
		t.Errorf("%+v, want a merge with total 14", again)
	}
}

// Joined decisions have the same effect as the separate ones.
func TestJoinDeferredDecisions(t *testing.T) {
	l := someLimits()
	for name, d := range map[string]store.Decision{
		"merges": {Verdict: store.Merge, MergedInto: "a", Occurrences: 1},
		"drops":  {Verdict: store.Drop, RefusedBy: &l.SpamFilter, Occurrences: 1},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				c := newRandomSteps(seed, false)
				var separate, joined engine.Group
				for _, g := range []*engine.Group{&separate, &joined} {
					g.Decide(c.now, store.KeyOf("first"), someWrite("a", c.now), &l, nil)
				}
				for c.n = range 30 {
					c.now = c.now.Add(20 * time.Minute)
					// Another replica, which does not know the refusals, stores an Event of the same name.
					stored := engine.DeferredDecision{Write: someWrite(fmt.Sprint("n", c.rng.IntN(40)), c.now), Limits: &l, DecidedAt: c.now}
					stored.Write.Count, stored.Write.ExactKey = 2, store.KeyOf(stored.Write.Name)
					for _, g := range []*engine.Group{&separate, &joined} {
						g.Apply(c.now, store.KeyOf(fmt.Sprint(c.n)), &stored)
					}
					var joinedDecision engine.DeferredDecision
					for i := range 1 + c.rng.IntN(9) {
						o := engine.DeferredDecision{Write: someWrite(fmt.Sprint("n", c.rng.IntN(40)), c.now), Limits: &l, Decision: d, DecidedAt: c.now}
						separate.Apply(c.now, store.KeyOf(fmt.Sprint(c.n)), &o)
						if i == 0 {
							joinedDecision = o
						} else {
							joinedDecision.Join(&o)
							joinedDecision.Decision.Occurrences++
						}
					}
					joined.Apply(c.now, store.KeyOf(fmt.Sprint(c.n)), &joinedDecision)
				}
				if got, want := formatTotals(&joined), formatTotals(&separate); got != want {
					t.Fatalf("seed %d: joined: %s, want %s as separately", seed, got, want)
				}
			}
		})
	}
}

// formatTotals returns the totals of a group's pending writes.
func formatTotals(g *engine.Group) string {
	notices, events := int64(0), int64(0)
	for _, p := range g.Claim(store.Key{}, time.UnixMicro(1<<60)) {
		if p.Notice != nil {
			notices += p.Total
		} else {
			events += p.Total
		}
	}
	return fmt.Sprint(events, " of Events, ", notices, " of notices")
}

// TestDeferredDecisionsKeepIdentity checks an admission, and a merge whose register was lost afterwards.
func TestDeferredDecisionsKeepIdentity(t *testing.T) {
	l := someLimits()
	created := store.Identity{CreateID: 7}
	first := someWrite("a", epoch())
	first.Identity = created
	var decided, admitted, merged engine.Group
	decided.Decide(epoch(), store.KeyOf("1"), first, &l, nil)
	d, _ := decided.Decide(epoch(), store.KeyOf("2"), someWrite("b", epoch()), &l, nil)
	if d.MergedIntoID != created {
		t.Errorf("merged into %+v, want %+v", d.MergedIntoID, created)
	}
	second := engine.DeferredDecision{Write: someWrite("b", epoch()), Limits: &l, Decision: d, DecidedAt: epoch()}
	admitted.Apply(epoch(), store.KeyOf("1"), &engine.DeferredDecision{Write: first, Limits: &l, DecidedAt: epoch()})
	admitted.Apply(epoch(), store.KeyOf("2"), &second)
	merged.Apply(epoch(), store.KeyOf("2"), &second)
	for name, g := range map[string]*engine.Group{"decided": &decided, "applied": &admitted, "applied to a lost register": &merged} {
		if writes := g.Claim(store.Key{}, epoch().Add(time.Hour)); len(writes) != 1 || writes[0].CreateID != 7 || writes[0].UID != "" {
			t.Errorf("%s: %+v, want one write to the Event with create ID 7", name, writes)
		}
	}
	again := first
	again.Identity = store.Identity{UID: "uid"}
	decided.Decide(epoch(), store.KeyOf("3"), again, &l, nil)
	if p := decided.Claim(store.Key{}, epoch().Add(time.Hour))[0]; p.CreateID != 0 || p.UID != "uid" {
		t.Errorf("%+v, want a write to the Event of the last CREATE, by UID", p)
	}
}
