package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// groupsBeforeCorrection returns functions that fill a register while a clock is ahead. Each returns the limits that it used.
func groupsBeforeCorrection() map[string]func(g *engine.Group, now time.Time) store.Limits {
	decide := func(g *engine.Group, l *store.Limits, now time.Time, name string, change func(*store.Write)) {
		w := someWrite(name, now)
		change(&w)
		g.Decide(now, store.KeyOf(name), w, l, nil)
	}
	same := func(*store.Write) {}
	complete := func(g *engine.Group, now time.Time, o store.Outcome) {
		for _, p := range g.Claim(store.Key{}, now.Add(1000*time.Hour)) {
			g.Complete(now, store.KeyOf("complete"), &p, o)
		}
	}
	merged := func(g *engine.Group, now time.Time) store.Limits {
		l := someLimits()
		decide(g, &l, now, "a", same)
		decide(g, &l, now, "b", same)
		return l
	}
	dropped := func(g *engine.Group, now time.Time) store.Limits {
		l := someLimits()
		l.SpamFilter.Burst, l.ReservePerReason = 1, 1
		for i := range 4 {
			decide(g, &l, now, fmt.Sprint(i), func(w *store.Write) { w.ExactKey = store.KeyOf(w.Name) })
		}
		return l
	}
	written := store.Outcome{UID: "uid", ResourceVersion: "1"}
	withOutcomes := func(setup func(*engine.Group, time.Time) store.Limits, o ...store.Outcome) func(*engine.Group, time.Time) store.Limits {
		return func(g *engine.Group, now time.Time) store.Limits {
			l := setup(g, now)
			for i, outcome := range o {
				complete(g, now, outcome)
				if outcome.Result == store.Written {
					decide(g, &l, now, fmt.Sprint("again", i), same)
				}
			}
			return l
		}
	}
	return map[string]func(*engine.Group, time.Time) store.Limits{
		"a repeat is merged":                         merged,
		"the count is written, and a repeat follows": withOutcomes(merged, written),
		"the count is written many times":            withOutcomes(merged, written, written, written, written, written, written),
		"a write fails":                              withOutcomes(merged, store.Outcome{Result: store.Failed}),
		"the stored Event is not found":              withOutcomes(merged, store.Outcome{Result: store.NotFound}),
		"the name of the stored Event is taken":      withOutcomes(merged, store.Outcome{Result: store.NameTaken}),
		"Events are dropped":                         dropped,
		"the notice of drops is written":             withOutcomes(dropped, written),
		"the write of the notice fails":              withOutcomes(dropped, store.Outcome{Result: store.Failed}),
		"Events are similar": func(g *engine.Group, now time.Time) store.Limits {
			l := someLimits()
			l.SimilarThreshold = 3
			for i := range 3 {
				decide(g, &l, now, fmt.Sprint(i), func(w *store.Write) {
					w.ExactKey, w.MessageKey = store.KeyOf(w.Name), store.KeyOf("m", w.Name)
				})
			}
			return l
		},
	}
}

// runSteps sends Events at each of steps, and writes pending counts when they are due. It returns one line for each
// decision and write.
func runSteps(g *engine.Group, l *store.Limits, start time.Time, steps []time.Duration) (lines []string) {
	for i, after := range steps {
		now := start.Add(after)
		for due := g.Due(); !due.IsZero() && !due.After(now); due = g.Due() {
			for _, p := range g.Claim(store.Key{}, due) {
				lines = append(lines, fmt.Sprintf("%v: %q has %d, newest %v", due.Sub(start), p.Text, p.Total, p.LastSeen.Sub(start)))
				g.Complete(due, store.KeyOf("f", due.String()), &p, store.Outcome{UID: "uid", ResourceVersion: "1"})
			}
		}
		for kind, change := range []func(*store.Write){
			func(*store.Write) {},
			func(w *store.Write) { w.ExactKey, w.MessageKey = store.KeyOf(w.Name), store.KeyOf("m", w.Name) },
			func(w *store.Write) { w.Name = "b" },
			func(w *store.Write) {
				w.Name, w.Count, w.Update = "a", int64(10+i), &store.Update{ByRecorder: true, Stored: store.Stored{Count: int64(i)}}
			},
		} {
			w := someWrite(fmt.Sprint("f", i, kind), now)
			change(&w)
			d, _ := g.Decide(now, store.KeyOf("d", w.Name, now.String()), w, l, nil)
			lines = append(lines, fmt.Sprintf("%v: %v into %q, %d, next %v", after, d.Verdict, d.MergedInto, d.Occurrences, d.NextToken))
		}
	}
	return append(lines, fmt.Sprint("until ", g.KeepUntil-start.UnixMicro(), ", due ", g.Due()))
}

// TestCorrectTimesAfterClockStepsBack uses a register first with a clock that is ahead, and then with the correct clock. The
// later decisions and writes are the same as if everything before had happened at the time of the correction.
func TestCorrectTimesAfterClockStepsBack(t *testing.T) {
	patterns := map[string][]time.Duration{
		"at once":                    {0, time.Second, 11 * time.Second, 30 * time.Second, 2 * time.Minute, 20 * time.Minute},
		"after a write":              {12 * time.Second, 20 * time.Second, time.Minute},
		"after a minute":             {time.Minute, 2 * time.Minute},
		"after a window":             {11 * time.Minute, 12 * time.Minute, 30 * time.Minute},
		"after the identical window": {61 * time.Minute, 62 * time.Minute, 3 * time.Hour},
	}
	for name, setup := range groupsBeforeCorrection() {
		for when, steps := range patterns {
			for _, ahead := range []time.Duration{20 * time.Minute, 24 * time.Hour, 300 * 24 * time.Hour} {
				t.Run(fmt.Sprint(name, ", ", when, ", ahead by ", ahead), func(t *testing.T) {
					var correctClock, clockAhead engine.Group
					l := setup(&correctClock, epoch())
					setup(&clockAhead, epoch().Add(ahead))
					clockAhead.CorrectTimes(epoch())
					want, got := runSteps(&correctClock, &l, epoch(), steps), runSteps(&clockAhead, &l, epoch(), steps)
					for i := range want {
						if got[min(i, len(got)-1)] != want[i] {
							t.Fatalf("line %d:\n got %s\nwant %s", i, got[min(i, len(got)-1)], want[i])
						}
					}
				})
			}
		}
	}
}

// TestCorrectTimesKeepsRightTimes checks that correct times stay, also if the clocks of replicas differ by seconds.
func TestCorrectTimesKeepsRightTimes(t *testing.T) {
	for name, setup := range groupsBeforeCorrection() {
		for _, back := range []time.Duration{0, 10 * time.Second} {
			var g engine.Group
			setup(&g, epoch())
			before := g.Append(nil)
			g.CorrectTimes(epoch().Add(-back))
			if after := g.Append(nil); string(after) != string(before) {
				t.Errorf("%s, clock set back by %v: the register changes, want it unchanged", name, back)
			}
		}
	}
}

// TestEveryStepCorrectsTimes fills a register with a clock that is a day ahead, and then makes one step with the correct clock.
func TestEveryStepCorrectsTimes(t *testing.T) {
	l, b := someLimits(), quotaBucket()
	drops := engine.NewDrops(epoch(), someWrite("a", epoch()), &l, &b, 1)
	op := engine.DeferredDecision{Write: someWrite("c", epoch()), Limits: &l, Decision: store.Decision{Verdict: store.Merge, MergedInto: "a", Occurrences: 1}, DecidedAt: epoch()}
	for name, step := range map[string]func(*engine.Group){
		"a decision":          func(g *engine.Group) { g.Decide(epoch(), store.KeyOf("d"), someWrite("c", epoch()), &l, nil) },
		"a deferred decision": func(g *engine.Group) { g.Apply(epoch(), store.KeyOf("r"), &op) },
		"drops":               func(g *engine.Group) { g.AddDrops(epoch(), store.KeyOf("n"), &drops) },
		"an outcome of a notice": func(g *engine.Group) {
			g.Complete(epoch(), store.KeyOf("c"), &store.PendingWrite{Notice: &store.Notice{}}, store.Outcome{})
		},
	} {
		var g engine.Group
		for _, name := range []string{"a", "b"} {
			g.Decide(epoch().Add(24*time.Hour), store.KeyOf(name), someWrite(name, epoch()), &l, nil)
		}
		step(&g)
		if until := time.UnixMicro(g.KeepUntil); g.Due().After(epoch().Add(l.WriteInterval)) || until.After(epoch().Add(3*time.Hour)) {
			t.Errorf("%s: the write is due in %v, and the register kept for %v; want at most a write interval and 3 hours",
				name, g.Due().Sub(epoch()), until.Sub(epoch()))
		}
	}
}
