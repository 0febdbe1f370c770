package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// TestRepeatedCountIsReportedInAnyOrder has a client that keeps its count after an error, as kube-rs does: 1, then 2 again and again. While
// Redis is unavailable, one replica admits the last PATCH with 2. Then the client sends 3, which another replica merges, and may report first.
func TestRepeatedCountIsReportedInAnyOrder(t *testing.T) {
	for _, lateFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("in order ", lateFirst), func(t *testing.T) {
			l := someLimits()
			var g engine.Group
			at := func(i int) time.Time { return epoch().Add(time.Duration(i) * time.Second) }
			write := func(count int64, i int, stored int64) store.Write {
				w := someWrite("n", at(i))
				w.Count, w.Stamp, w.FirstSeen, w.LastSeen = count, at(i).UnixMicro(), epoch(), at(i)
				if i > 0 {
					w.Update = &store.Update{ByRecorder: true, UID: "uid", Stored: store.Stored{Count: stored, Stamp: epoch().UnixMicro()}, ContentKey: store.KeyOf(fmt.Sprint(i))}
				}
				return w
			}
			yes := []engine.TakeResult{{OK: true}}
			g.Decide(at(0), store.KeyOf("0"), write(1, 0, 0), &l, yes)
			for i := 1; i <= 3; i++ { // three merged repeats
				g.Decide(at(i), store.KeyOf(fmt.Sprint(i)), write(2, i, 1), &l, yes)
			}
			// As replicas decide that know nothing of the Event.
			decide := func(w store.Write, verdict string) engine.DeferredDecision {
				var own engine.Group
				d, _ := own.Decide(w.LastSeen, store.KeyOf(verdict), w, &l, yes)
				return engine.DeferredDecision{Write: w, Limits: &l, Decision: d, DecidedAt: w.LastSeen}
			}
			admitted := decide(write(2, 4, 1), "admitted")
			merged := decide(write(3, 5, 2), "merged")
			merged.Decision.Verdict = store.Merge
			merged.Decision.Occurrences = 1
			order := []engine.DeferredDecision{merged, admitted}
			if lateFirst {
				order = []engine.DeferredDecision{admitted, merged}
			}
			for i := range order {
				g.Apply(at(6), store.KeyOf(fmt.Sprint("apply", i)), &order[i])
			}
			d, _ := g.Decide(at(7), store.KeyOf("7"), write(4, 7, 2), &l, yes)
			if d.Total != 7 {
				t.Errorf("total %d, want 7: one CREATE, four with count 2, and one each with 3 and 4", d.Total)
			}
		})
	}
}

// TestDropByQuotaIsReportedOnce has three replicas without Redis, which report in any order. A quota of the first drops the CREATE with
// count 1. The second admits the CREATE with count 2, and the third decides the PATCH with 3.
func TestDropByQuotaIsReportedOnce(t *testing.T) {
	for _, verdict := range []store.Verdict{store.Merge, store.Admit} {
		for order := range 2 {
			for _, since := range []int64{0, 1} {
				t.Run(fmt.Sprint(verdict, order, since), func(t *testing.T) {
					l := someLimits()
					l.Quotas = []store.Bucket{{Key: store.KeyOf("quota"), Limit: store.Limit{Burst: 2, Every: time.Hour}}}
					at := func(i int) time.Time { return epoch().Add(time.Duration(i) * time.Second) }
					create := someWrite("n", at(2))
					create.Count, create.Stamp, create.FirstSeen, create.LastSeen = 2, at(2).UnixMicro(), at(1), at(2)
					var b engine.Group
					d, _ := b.Decide(at(2), store.KeyOf("b"), create, &l, []engine.TakeResult{{OK: true}, {OK: true}})
					admitted := engine.DeferredDecision{Write: create, Limits: &l, Decision: d, DecidedAt: at(2)}

					patch := someWrite("n", at(3))
					patch.Count, patch.Stamp, patch.FirstSeen, patch.LastSeen = 3, at(3).UnixMicro(), at(1), at(3)
					patch.Update = &store.Update{ByRecorder: true, UID: "uid", Stored: store.Stored{Count: 2, Stamp: at(2).UnixMicro()}, ContentKey: store.KeyOf("c")}
					p := engine.DeferredDecision{Write: patch, Limits: &l, DecidedAt: at(3), Decision: store.Decision{Verdict: verdict, Occurrences: 1}}
					both := []engine.DeferredDecision{admitted, p}
					if order == 1 {
						both = []engine.DeferredDecision{p, admitted}
					}
					g := engine.Group{FirstWrite: since}
					for i := range both {
						g.Apply(at(4), store.KeyOf(fmt.Sprint(i)), &both[i])
					}
					patch.Count, patch.Stamp, patch.LastSeen = 4, at(5).UnixMicro(), at(5)
					patch.Update.ContentKey = store.KeyOf("d")
					patch.Update.Stored.Count = 2
					if verdict == store.Admit {
						patch.Update.Stored.Count = 3
					}
					d, _ = g.Decide(at(5), store.KeyOf("5"), patch, &l, []engine.TakeResult{{OK: true}, {OK: true}})
					if d.Total != 3 {
						t.Errorf("%v, total %d, want 3: the quota's notice has the first of 4", d.Verdict, d.Total)
					}
				})
			}
		}
	}
}
