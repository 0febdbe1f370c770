package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// longName returns a name of the given length, which differs from others only in its last bytes.
func longName(bytes, i int) string {
	last := fmt.Sprintf(".%015x", i)
	return strings.Repeat("n", bytes-len(last)) + last
}

// lengths returns lengths of Event names around three bounds: the longest object names, the names that old recorders make of
// these, and the longest names that are kept whole.
func lengths() []int { return []int{253, 254, 270, 1024, 1025, 60_000} }

// occurrences returns how many occurrences of pending writes the API server does not have yet.
func occurrences(g *engine.Group) (n int64) {
	for _, p := range g.Claim(store.Key{}, epoch().Add(1000*time.Hour)) {
		n += p.Total - p.Written
	}
	return n
}

func TestLongNamesAreCounted(t *testing.T) {
	for _, bytes := range lengths() {
		for name, tt := range map[string]struct {
			change func(*store.Limits)
			send   func(i int) int // the number of the i-th name
			stored int64           // how many Events are stored if names are kept whole
			want   int64           // how many further occurrences are reported
		}{
			"repeats are merged":         {func(*store.Limits) {}, func(i int) int { return i }, 1, 99},
			"the spam filter drops all":  {func(l *store.Limits) { l.SpamFilter.Burst = 0 }, func(i int) int { return i }, 0, 100},
			"a refused name counts once": {func(l *store.Limits) { l.SpamFilter.Burst = 0 }, func(i int) int { return i / 2 }, 0, 50},
		} {
			t.Run(fmt.Sprint(name, ", names of ", bytes, " bytes"), func(t *testing.T) {
				var g engine.Group
				l := someLimits()
				tt.change(&l)
				stored := int64(0)
				for i := range 100 {
					d, _ := g.Decide(epoch(), store.KeyOf(fmt.Sprint(i)), someWrite(longName(bytes, tt.send(i)), epoch()), &l, nil)
					if d.Verdict.Admits() {
						stored++
					}
				}
				if n := stored + occurrences(&g); n != tt.stored+tt.want || bytes <= 1024 && stored != tt.stored {
					t.Errorf("%d Events are stored and %d occurrences reported, want %d and %d", stored, n, tt.stored, tt.stored+tt.want)
				}
				for _, p := range g.Claim(store.Key{}, epoch().Add(time.Hour)) {
					if p.Notice == nil && p.Name != longName(bytes, 0) {
						t.Errorf("the write is to an Event whose name has %d bytes, want the first one, of %d", len(p.Name), bytes)
					}
				}
				if g.Size() > engine.MaxGroupBytes {
					t.Errorf("the register has %d bytes, want at most %d", g.Size(), engine.MaxGroupBytes)
				}
			})
		}
	}
}

// TestNamesThatDifferAtTheEndAreDistinct sends UPDATEs that the spam filter refuses.
func TestNamesThatDifferAtTheEndAreDistinct(t *testing.T) {
	for _, bytes := range lengths() {
		t.Run(fmt.Sprint(bytes, " bytes"), func(t *testing.T) {
			var g engine.Group
			l := someLimits()
			l.SpamFilter.Burst = 0
			for i, name := range []string{longName(bytes, 1), longName(bytes, 2)} {
				for count := int64(2); count <= 6; count++ {
					w := someWrite(name, epoch())
					w.Count, w.Update = count, &store.Update{ByRecorder: true, UID: name, Stored: store.Stored{Count: 1}}
					d, _ := g.Decide(epoch(), store.KeyOf(fmt.Sprint(i, count)), w, &l, nil)
					if d.Verdict.Admits() || d.Occurrences != 1 {
						t.Fatalf("Event %d, count %d: %v of %d occurrences, want a drop of one", i, count, d.Verdict, d.Occurrences)
					}
				}
			}
			if n := occurrences(&g); n != 10 {
				t.Errorf("%d occurrences are reported, want 5 for each of two Events", n)
			}
		})
	}
}

// TestUpdateWithVeryLongName sends an UPDATE of a name that is too long for a register.
func TestUpdateWithVeryLongName(t *testing.T) {
	l := someLimits()
	l.Quotas = []store.Bucket{quotaBucket()}
	w := someWrite(longName(2000, 1), epoch())
	w.Count, w.Update = 7, &store.Update{ByRecorder: true, Stored: store.Stored{Count: 5}}
	var g, reported engine.Group
	if d, _ := g.Decide(epoch(), store.Key{}, w, &l, []engine.TakeResult{{OK: true}}); d.Verdict != store.Admit || len(g.Events) > 0 {
		t.Errorf("%v, %d tracked Events; want it admitted and not tracked", d.Verdict, len(g.Events))
	}
	d, _ := g.Decide(epoch(), store.Key{}, w, &l, []engine.TakeResult{{}})
	if d.Verdict != store.Drop || d.Occurrences != 2 {
		t.Errorf("%v of %d occurrences, want a drop of the 2 new ones", d.Verdict, d.Occurrences)
	}
	for _, decision := range []store.Decision{{Verdict: store.Admit}, d} {
		reported.Apply(epoch(), store.Key{}, &engine.DeferredDecision{Write: w, Limits: &l, Decision: decision, DecidedAt: epoch()})
	}
	if d, _ := reported.Decide(epoch(), store.Key{}, w, &l, []engine.TakeResult{{}}); d.Occurrences != 0 || len(reported.Events) > 0 {
		t.Errorf("%d occurrences are counted again, %d tracked Events; want none", d.Occurrences, len(reported.Events))
	}
}

// TestDeferredRefusalsUseWholeNames joins refusals, as a backlog does.
func TestDeferredRefusalsUseWholeNames(t *testing.T) {
	for _, bytes := range lengths() {
		l := someLimits()
		l.SpamFilter.Burst = 0
		decision := func(i int) *engine.DeferredDecision {
			return &engine.DeferredDecision{
				Write: someWrite(longName(bytes, i), epoch()), Limits: &l, DecidedAt: epoch(),
				Decision: store.Decision{Verdict: store.Drop, RefusedBy: &l.SpamFilter, Occurrences: 1},
			}
		}
		joined := decision(0)
		for i := 1; i < 20; i++ {
			joined.Join(decision(i))
			joined.Decision.Occurrences++
		}
		var g engine.Group
		g.Apply(epoch(), store.Key{}, joined)
		for i := range 20 {
			g.Decide(epoch(), store.Key{}, decision(i).Write, &l, nil)
		}
		if n := occurrences(&g); n != 20 {
			t.Errorf("names of %d bytes: %d occurrences are reported, want 20, each once", bytes, n)
		}
	}
}

// TestReasonsThatDifferAtTheEndHaveOwnReserves uses reasons that differ only in their last bytes.
func TestReasonsThatDifferAtTheEndHaveOwnReserves(t *testing.T) {
	for _, bytes := range []int{128, 129, 253, 254, 256, 257, 1025} {
		var g engine.Group
		l := someLimits()
		l.SpamFilter.Burst, l.ReservePerReason, l.Merge = 0, 1, false
		for i := range 10 {
			w := someWrite(fmt.Sprint(i), epoch())
			w.Reason = longName(bytes, i)
			if d, _ := g.Decide(epoch(), store.KeyOf(fmt.Sprint(i)), w, &l, nil); d.Verdict != store.Admit {
				t.Errorf("reason %d of %d bytes: %v, want it admitted by its reserve", i, bytes, d.Verdict)
			}
		}
	}
}

// TestClippedReasonUsesItsOwnReserve applies the decision on an Event that a reserve has admitted without the register.
func TestClippedReasonUsesItsOwnReserve(t *testing.T) {
	for _, bytes := range []int{128, 129, 256, 257, 1025, 128 << 10} {
		var g engine.Group
		l := someLimits()
		l.SpamFilter.Burst, l.ReservePerReason, l.Merge = 0, 1, false
		write := func(i int) store.Write {
			w := someWrite(fmt.Sprint(i), epoch())
			w.Reason = longName(bytes, i%2)
			return w
		}
		decision := engine.DeferredDecision{Write: write(0), Limits: &l, Decision: store.Decision{Verdict: store.Admit}, DecidedAt: epoch()}
		compacted := decision.Compact().Compact()
		if n := compacted.Size(); n > 4<<10 {
			t.Errorf("a backlog takes %d bytes for a reason of %d, want at most %d", n, bytes, 4<<10)
		}
		g.Apply(epoch(), store.KeyOf("reported"), compacted)
		for i, want := range []store.Verdict{store.Drop, store.Admit, store.Drop} {
			if d, _ := g.Decide(epoch(), store.KeyOf(fmt.Sprint(i)), write(2-i), &l, nil); d.Verdict != want {
				t.Errorf("Event %d with a reason of %d bytes: %v, want %v", i, bytes, d.Verdict, want)
			}
		}
	}
}

// TestRulesThatDifferAtTheEndHaveOwnNotices uses the longest names of policies.
func TestRulesThatDifferAtTheEndHaveOwnNotices(t *testing.T) {
	var g engine.Group
	l := someLimits()
	for i := range 2 {
		b := quotaBucket()
		b.Policy = "EventPolicy " + strings.Repeat("n", 63) + "/" + longName(253, i)
		d := engine.NewDrops(epoch(), someWrite("a", epoch()), &l, &b, 1)
		g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
	}
	if len(g.Notices) != 2 {
		t.Errorf("%d notices, want one for each policy", len(g.Notices))
	}
}
