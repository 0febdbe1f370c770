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

// decidedAndApplied is a group in which every write is decided, and one to which the decisions are reported.
type decidedAndApplied struct {
	*randomSteps
	decided, reported engine.Group
	limits            store.Limits
	n                 int
}

// TestApplyMatchesDecide: what was decided elsewhere, once reported, leaves the same to write to
// the API server, and the same decisions to make, as if it had been decided here.
func TestApplyMatchesDecide(t *testing.T) {
	for seed := range uint64(40) {
		p := &decidedAndApplied{randomSteps: newRandomSteps(seed, false), limits: someLimits()}
		p.limits.SimilarThreshold, p.limits.ReservePerReason, p.limits.ChargeMerged = 3, int(seed%2), seed%3 == 0
		p.limits.SpamFilter.Limit = store.Limit{Burst: 1 + p.rng.IntN(20), Every: time.Minute}
		p.limits.Quotas = []store.Bucket{{Limit: store.Limit{Burst: 9, Every: time.Minute}, Key: store.KeyOf("quota"), Name: "quota"}}
		for range 100 {
			p.step(t)
		}
		if got, want := inWrites(&p.reported), inWrites(&p.decided); got != want {
			t.Fatalf("seed %d: reported:\n%s\nwant what was decided:\n%s", seed, got, want)
		}
		for i := range 20 {
			w := p.next()
			d, _ := p.decided.Decide(p.now, store.KeyOf("a", fmt.Sprint(i)), w, &p.limits, p.grants())
			r, _ := p.reported.Decide(p.now, store.KeyOf("a", fmt.Sprint(i)), w, &p.limits, p.grants())
			if d != r {
				t.Fatalf("seed %d, write %d afterwards: %+v, want %+v", seed, i, r, d)
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
	p.reported.Apply(p.now, fresh, &engine.DeferredDecision{Write: w, Limits: &p.limits, Decision: d, DecidedAt: p.now})
}

// inWrites says what is pending of a group.
func inWrites(g *engine.Group) string {
	var said []string
	for _, p := range g.Claim(store.Key{}, time.UnixMicro(1<<60)) {
		what := p.Name
		if p.Notice != nil {
			what = "notice " + inTallies(p.Notice.Reasons)
		}
		said = append(said, fmt.Sprintf("%s: %d, own %d, written %d, %s, due %v\n", what, p.Total, p.Own, p.Written, inTallies(p.Messages), p.Due.Sub(epoch())))
	}
	slices.Sort(said)
	return fmt.Sprint(said)
}

func inTallies(all []store.Tally) string {
	said := make([]string, len(all))
	for i, t := range all {
		said[i] = fmt.Sprintf("%s %d", t.Name, t.Count)
	}
	return strings.Join(said, ", ")
}

func TestApply(t *testing.T) {
	l := someLimits()
	merge, drop := store.Decision{Verdict: store.Merge, MergedInto: "a"}, store.Decision{Verdict: store.Drop, RefusedBy: &l.SpamFilter}
	late := l.IdenticalWindow + time.Minute
	for _, test := range []struct {
		says        string
		known       string // names of the Events that the group knows, of which those after the first have merged
		d           store.Decision
		count       int64
		occurrences int64
		more        int64
		reported    time.Duration // a minute after it was decided, or at once
		want        string
	}{
		{"a merge counts others that were merged with it", "a", merge, 1, 7, 6, 0, "[a: 8, own 1, written 1, , due 10s\n]"},
		{"so does a drop", "a", drop, 1, 7, 6, 0, "[notice Failed 7: 7, own 7, written 0, , due 10s\n]"},
		{"a merge that is reported late knows the names of then", "ab", merge, 4, 3, 0, late, "[a: 5, own 1, written 1, , due 10s\n]"},
		{
			"so does a drop", "ab", drop, 4, 3, 0, late,
			"[a: 2, own 1, written 1, , due 10s\n notice Failed 3: 3, own 3, written 0, , due 1h1m10s\n]",
		},
		{
			"and an Event that is stored", "ab", store.Decision{}, 4, 0, 0, late,
			"[a: 2, own 1, written 1, , due 10s\n b: 3, own 4, written 4, , due 1h0m10s\n]",
		},
		{"a register that knows no names any more counts no more than was decided", "", merge, 4, 3, 0, 0, "[a: 3, own 0, written 0, , due 10s\n]"},
		{"nor does it of a drop", "", drop, 4, 3, 0, 0, "[notice Failed 3: 3, own 3, written 0, , due 10s\n]"},
	} {
		t.Run(test.says, func(t *testing.T) {
			var g engine.Group
			for _, name := range test.known {
				g.Decide(epoch(), store.KeyOf(string(name)), someWrite(string(name), epoch()), &l, nil)
			}
			o := engine.DeferredDecision{Write: someWrite("b", epoch()), Limits: &l, Decision: test.d, DecidedAt: epoch().Add(max(0, test.reported-time.Minute)), Others: test.more}
			o.Write.Count, o.Decision.Occurrences = test.count, test.occurrences
			if g.Apply(epoch().Add(test.reported), store.KeyOf("report"), &o); inWrites(&g) != test.want {
				t.Errorf("%q, want %q", inWrites(&g), test.want)
			}
		})
	}
}

// A merge into an Event that is not known here, as the register was lost, has its own count to itself:
// what the Event says comes to it when it is read.
func TestApplyMergeIntoUnknownEvent(t *testing.T) {
	l, d := someLimits(), store.Decision{Verdict: store.Merge, MergedInto: "lost", Occurrences: 1}
	var g engine.Group
	for i := range 3 {
		g.Apply(epoch(), store.Key{}, &engine.DeferredDecision{Write: someWrite(fmt.Sprint(i), epoch()), Limits: &l, Decision: d, DecidedAt: epoch()})
	}
	writes := g.Claim(store.Key{}, epoch().Add(time.Hour))
	if len(writes) != 1 || writes[0].Total != 3 || !writes[0].Partial || writes[0].Name != "lost" {
		t.Fatalf("%+v, want three more for the Event", writes)
	}
	p, said := writes[0], store.Stored{Count: 10, Merged: 4}
	p.Adopt(said)
	if p.Total != 13 || p.Own != 6 {
		t.Errorf("%d, %d its own, want 13 and 6", p.Total, p.Own)
	}
	g.Complete(epoch(), store.Key{}, &p, store.Outcome{UID: "uid", ResourceVersion: "1", Stored: said})
	again, _ := g.Decide(epoch(), store.Key{}, someWrite("again", epoch()), &l, nil)
	if again.Verdict != store.Merge || again.Total != 14 {
		t.Errorf("%+v, want the 14th", again)
	}
}

// Decisions that are alike go as one report, and say the same as one by one.
func TestJoinDeferredDecisions(t *testing.T) {
	l := someLimits()
	for says, d := range map[string]store.Decision{
		"merges": {Verdict: store.Merge, MergedInto: "a", Occurrences: 1},
		"drops":  {Verdict: store.Drop, RefusedBy: &l.SpamFilter, Occurrences: 1},
	} {
		t.Run(says, func(t *testing.T) {
			for seed := range uint64(20) {
				c := newRandomSteps(seed, false)
				var one, joined engine.Group
				for _, g := range []*engine.Group{&one, &joined} {
					g.Decide(c.now, store.KeyOf("first"), someWrite("a", c.now), &l, nil)
				}
				for c.n = range 30 {
					c.now = c.now.Add(20 * time.Minute)
					// Another replica, which does not know what was refused, stores an Event of that name.
					stored := engine.DeferredDecision{Write: someWrite(fmt.Sprint("n", c.rng.IntN(40)), c.now), Limits: &l, DecidedAt: c.now}
					stored.Write.Count, stored.Write.ExactKey = 2, store.KeyOf(stored.Write.Name)
					for _, g := range []*engine.Group{&one, &joined} {
						g.Apply(c.now, store.KeyOf(fmt.Sprint(c.n)), &stored)
					}
					var all engine.DeferredDecision
					for i := range 1 + c.rng.IntN(9) {
						o := engine.DeferredDecision{Write: someWrite(fmt.Sprint("n", c.rng.IntN(40)), c.now), Limits: &l, Decision: d, DecidedAt: c.now}
						one.Apply(c.now, store.KeyOf(fmt.Sprint(c.n)), &o)
						if i == 0 {
							all = o
						} else {
							all.Join(&o)
							all.Decision.Occurrences++
						}
					}
					joined.Apply(c.now, store.KeyOf(fmt.Sprint(c.n)), &all)
				}
				if got, want := inTotals(&joined), inTotals(&one); got != want {
					t.Fatalf("seed %d: joined: %s, want %s", seed, got, want)
				}
			}
		})
	}
}

// inTotals says how many occurrences are pending of a group.
func inTotals(g *engine.Group) string {
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

// TestDeferredDecisionsKeepIdentity holds it for an admission, and for a merge whose register was lost since.
func TestDeferredDecisionsKeepIdentity(t *testing.T) {
	l := someLimits()
	created := store.Identity{CreateID: 7}
	first := someWrite("a", epoch())
	first.Identity = created
	var decided, admitted, merged engine.Group
	decided.Decide(epoch(), store.KeyOf("1"), first, &l, nil)
	d, _ := decided.Decide(epoch(), store.KeyOf("2"), someWrite("b", epoch()), &l, nil)
	if d.MergedIntoID != created {
		t.Errorf("the merge is into %+v, want %+v", d.MergedIntoID, created)
	}
	second := engine.DeferredDecision{Write: someWrite("b", epoch()), Limits: &l, Decision: d, DecidedAt: epoch()}
	admitted.Apply(epoch(), store.KeyOf("1"), &engine.DeferredDecision{Write: first, Limits: &l, DecidedAt: epoch()})
	admitted.Apply(epoch(), store.KeyOf("2"), &second)
	merged.Apply(epoch(), store.KeyOf("2"), &second)
	for says, g := range map[string]*engine.Group{"decided": &decided, "reported": &admitted, "lost": &merged} {
		if writes := g.Claim(store.Key{}, epoch().Add(time.Hour)); len(writes) != 1 || writes[0].CreateID != 7 || writes[0].UID != "" {
			t.Errorf("%s: %+v, want a write to the Event of CREATE 7", says, writes)
		}
	}
	again := first
	again.Identity = store.Identity{UID: "uid"}
	decided.Decide(epoch(), store.KeyOf("3"), again, &l, nil)
	if p := decided.Claim(store.Key{}, epoch().Add(time.Hour))[0]; p.CreateID != 0 || p.UID != "uid" {
		t.Errorf("%+v, want a write to the Event of the last CREATE", p)
	}
}
