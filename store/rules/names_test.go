package rules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// longName is the name of an Event of so many bytes, of which only the last ones tell it from others.
func longName(bytes, i int) string {
	last := fmt.Sprintf(".%015x", i)
	return strings.Repeat("n", bytes-len(last)) + last
}

// lengths are those of names: of objects, of what old recorders make of the longest of these, the longest that are kept
// whole, and longer ones.
func lengths() []int { return []int{253, 254, 270, 1024, 1025, 60_000} }

// occurrences are how many pending writes report beyond what the API server has.
func occurrences(g *rules.Group) (n int64) {
	for _, p := range g.Claim(store.Key{}, epoch().Add(1000*time.Hour)) {
		n += p.Total - p.Written
	}
	return n
}

func TestEventsOfOneObjectAreCountedHoweverLongTheirNames(t *testing.T) {
	for _, bytes := range lengths() {
		for says, tt := range map[string]struct {
			change func(*store.Limits)
			send   func(i int) int // which name comes
			stored int64           // how many Events are stored, where names are kept whole
			want   int64           // how many occurrences are reported beside these
		}{
			"repeats are merged":                         {func(*store.Limits) {}, func(i int) int { return i }, 1, 99},
			"a spam filter drops them":                   {func(l *store.Limits) { l.Spam.Burst = 0 }, func(i int) int { return i }, 0, 100},
			"one that is refused counts once for a name": {func(l *store.Limits) { l.Spam.Burst = 0 }, func(i int) int { return i / 2 }, 0, 50},
		} {
			t.Run(fmt.Sprint(says, ", names of ", bytes, " bytes"), func(t *testing.T) {
				var g rules.Group
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
					t.Errorf("%d are stored and %d occurrences reported in all, want %d and %d", stored, n, tt.stored, tt.stored+tt.want)
				}
				for _, p := range g.Claim(store.Key{}, epoch().Add(time.Hour)) {
					if p.Notice == nil && p.Name != longName(bytes, 0) {
						t.Errorf("the write is to an Event whose name has %d bytes, want that of %d", len(p.Name), bytes)
					}
				}
				if g.Size() > rules.MaxBytes {
					t.Errorf("the register has %d bytes", g.Size())
				}
			})
		}
	}
}

// TestEventsWhoseNamesDifferAtTheirEndAreTwo holds it for UPDATEs, which a spam filter refuses.
func TestEventsWhoseNamesDifferAtTheirEndAreTwo(t *testing.T) {
	for _, bytes := range lengths() {
		t.Run(fmt.Sprint(bytes, " bytes"), func(t *testing.T) {
			var g rules.Group
			l := someLimits()
			l.Spam.Burst = 0
			for i, name := range []string{longName(bytes, 1), longName(bytes, 2)} {
				for count := int64(2); count <= 6; count++ {
					w := someWrite(name, epoch())
					w.Count, w.Update = count, &store.Update{Recorder: true, UID: name, Stored: store.Stored{Count: 1}}
					d, _ := g.Decide(epoch(), store.KeyOf(fmt.Sprint(i, count)), w, &l, nil)
					if d.Verdict.Admits() || d.Occurrences != 1 {
						t.Fatalf("Event %d, count %d: %v of %d occurrences, want one refused", i, count, d.Verdict, d.Occurrences)
					}
				}
			}
			if n := occurrences(&g); n != 10 {
				t.Errorf("%d occurrences are reported, want 5 of each Event", n)
			}
		})
	}
}

// TestAnUpdateOfAnEventWithAVeryLongNameIsDecided holds what becomes of one that no register can keep.
func TestAnUpdateOfAnEventWithAVeryLongNameIsDecided(t *testing.T) {
	l := someLimits()
	l.Quotas = []store.Bucket{quotaBucket()}
	w := someWrite(longName(2000, 1), epoch())
	w.Count, w.Update = 7, &store.Update{Recorder: true, Stored: store.Stored{Count: 5}}
	var g, reported rules.Group
	if d, _ := g.Decide(epoch(), store.Key{}, w, &l, []rules.Grant{{OK: true}}); d.Verdict != store.Admit || len(g.Records) > 0 {
		t.Errorf("%v, %d records; want it admitted, and nothing to settle", d.Verdict, len(g.Records))
	}
	d, _ := g.Decide(epoch(), store.Key{}, w, &l, []rules.Grant{{}})
	if d.Verdict != store.Drop || d.Occurrences != 2 {
		t.Errorf("%v of %d, want a drop of the 2 that are new", d.Verdict, d.Occurrences)
	}
	for _, decision := range []store.Decision{{Verdict: store.Admit}, d} {
		reported.Report(epoch(), store.Key{}, &rules.Op{Write: w, Limits: &l, Decision: decision, At: epoch()})
	}
	if d, _ := reported.Decide(epoch(), store.Key{}, w, &l, []rules.Grant{{}}); d.Occurrences != 0 || len(reported.Records) > 0 {
		t.Errorf("%d are reported again, %d records", d.Occurrences, len(reported.Records))
	}
}

// TestWhatIsRefusedWithoutTheRegisterIsCountedByWholeNames joins refusals, as a replica does that reports them later.
func TestWhatIsRefusedWithoutTheRegisterIsCountedByWholeNames(t *testing.T) {
	for _, bytes := range lengths() {
		l := someLimits()
		l.Spam.Burst = 0
		op := func(i int) *rules.Op {
			return &rules.Op{
				Write: someWrite(longName(bytes, i), epoch()), Limits: &l, At: epoch(),
				Decision: store.Decision{Verdict: store.Drop, Empty: &l.Spam, Occurrences: 1},
			}
		}
		joined := op(0)
		for i := 1; i < 20; i++ {
			joined.Join(op(i))
			joined.Decision.Occurrences++
		}
		var g rules.Group
		g.Report(epoch(), store.Key{}, joined)
		for i := range 20 {
			g.Decide(epoch(), store.Key{}, op(i).Write, &l, nil)
		}
		if n := occurrences(&g); n != 20 {
			t.Errorf("names of %d bytes: %d occurrences are reported, want each of 20 once", bytes, n)
		}
	}
}

// TestReasonsThatDifferAtTheirEndHaveReservesOfTheirOwn has reasons whose first bytes are alike.
func TestReasonsThatDifferAtTheirEndHaveReservesOfTheirOwn(t *testing.T) {
	for _, bytes := range []int{128, 129, 253, 254, 256, 257, 1025} {
		var g rules.Group
		l := someLimits()
		l.Spam.Burst, l.ReservePerReason, l.Merge = 0, 1, false
		for i := range 10 {
			w := someWrite(fmt.Sprint(i), epoch())
			w.Reason = longName(bytes, i)
			if d, _ := g.Decide(epoch(), store.KeyOf(fmt.Sprint(i)), w, &l, nil); d.Verdict != store.Admit {
				t.Errorf("reason %d of %d bytes: %v, want it admitted by its reserve", i, bytes, d.Verdict)
			}
		}
	}
}

// TestAReasonThatABacklogCutsUsesItsOwnReserve reports an Event that a reserve has admitted without the register.
func TestAReasonThatABacklogCutsUsesItsOwnReserve(t *testing.T) {
	for _, bytes := range []int{128, 129, 256, 257, 1025, 128 << 10} {
		var g rules.Group
		l := someLimits()
		l.Spam.Burst, l.ReservePerReason, l.Merge = 0, 1, false
		write := func(i int) store.Write {
			w := someWrite(fmt.Sprint(i), epoch())
			w.Reason = longName(bytes, i%2)
			return w
		}
		op := rules.Op{Write: write(0), Limits: &l, Decision: store.Decision{Verdict: store.Admit}, At: epoch()}
		kept := op.Compact().Compact()
		if n := kept.Size(); n > 4<<10 {
			t.Errorf("a backlog takes %d bytes for a reason of %d", n, bytes)
		}
		g.Report(epoch(), store.KeyOf("reported"), kept)
		for i, want := range []store.Verdict{store.Drop, store.Admit, store.Drop} {
			if d, _ := g.Decide(epoch(), store.KeyOf(fmt.Sprint(i)), write(2-i), &l, nil); d.Verdict != want {
				t.Errorf("Event %d with a reason of %d bytes: %v, want %v", i, bytes, d.Verdict, want)
			}
		}
	}
}

// TestRulesWhoseNamesDifferAtTheirEndHaveNoticesOfTheirOwn has the longest names that rules may have.
func TestRulesWhoseNamesDifferAtTheirEndHaveNoticesOfTheirOwn(t *testing.T) {
	var g rules.Group
	l := someLimits()
	for i := range 2 {
		b := quotaBucket()
		b.Policy = "EventPolicy " + strings.Repeat("n", 63) + "/" + longName(253, i)
		d := rules.Dropped(epoch(), someWrite("a", epoch()), &l, &b, 1)
		g.AddDrops(epoch(), store.KeyOf("fresh"), &d)
	}
	if len(g.Notices) != 2 {
		t.Errorf("%d notices, want one for each policy", len(g.Notices))
	}
}
