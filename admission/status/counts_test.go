package status_test

import (
	"errors"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/store"
)

// A leader adds the decisions of its term to the counts in the status. Decisions between two terms are in no status, and none is
// counted twice.
func TestNewLeaderContinuesCounts(t *testing.T) {
	t.Parallel()
	for says, between := range map[string]func(r *rig){
		"with the same replicas": func(r *rig) { r.decide("p", 1, busiest.Counts{Admitted: 3}) },
		"after a rolling update": func(r *rig) { r.counts.restart(0) },
		"in another process, which compiles the rule late": func(r *rig) {
			r.reports = []watch.Report{{Identity: r.reports[0].Identity, Pending: true}}
			r.after(30*time.Second, func() { r.changeReport(validReport("p", 1)) })
		},
		"while a replica has no snapshot at first": func(r *rig) {
			hidden := r.counts.replicas
			r.counts.replicas = nil
			r.after(5*time.Second, func() { r.counts.replicas = hidden })
		},
	} {
		t.Run(says, func(t *testing.T) {
			runInBubble(t, func(r *rig) {
				r.changeReport(validReport("p", 1))
				r.after(500*time.Millisecond, func() { r.decide("p", 1, busiest.Counts{Admitted: 5}) })
				r.runLeader(6 * time.Minute)
				between(r)
				r.after(time.Minute, func() { r.decide("p", 1, busiest.Counts{Admitted: 2}) })
				r.runLeader(9 * time.Minute)
				r.wantWritten("0s: p@1 0/0/0", "5m0s: p@1 5/0/0", "11m0s: p@1 7/0/0")
				if first, last := r.writes[0].status.Total, r.writes[2].status.Total; !first.Since.Equal(last.Since) {
					r.Errorf("counted since %v, and then since %v", first.Since, last.Since)
				}
			})
		})
	}
}

var randomRuns = flag.Uint64("seeds", 2, "how many random runs TestCountsAreExact makes")

// In TestCountsAreExact, replicas count, restart and vanish for a while, and the leader changes while nothing is decided.
func TestCountsAreExact(t *testing.T) {
	t.Parallel()
	for seed := range *randomRuns {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			runInBubble(t, func(r *rig) {
				random := mathrand.New(mathrand.NewPCG(seed, 1))
				r.changeReport(validReport("p", 1))
				replicas := []*busiest.Counter{r.counts.replicas[0], busiest.NewCounter("b", time.Now(), 1), busiest.NewCounter("c", time.Now(), 1)}
				var want busiest.Counts
				for range 3 {
					r.counts.replicas = replicas
					const steps, step = 20, time.Minute
					for i := range steps {
						at := time.Duration(i) * step
						r.after(at+500*time.Millisecond, func() {
							c := busiest.Counts{Admitted: random.Int64N(9), Merged: random.Int64N(9), Dropped: random.Int64N(9)}
							r.counts.replicas = replicas
							r.decideOn(random.IntN(3), "p", 1, c)
							want = want.Add(c)
							if i < steps-1 && random.IntN(2) == 0 { // the snapshot of one has expired or is not there yet
								r.counts.replicas = slices.Delete(slices.Clone(replicas), 1, 2)
							}
						})
						if random.IntN(3) == 0 {
							r.after(at+30*time.Second, func() { r.counts.restart(0) })
						}
					}
					r.runLeader(steps*step + 6*time.Minute)
				}
				got := r.writes[len(r.writes)-1].status.Total
				if counts := (busiest.Counts{Admitted: got.Admitted, Merged: got.Merged, Dropped: got.Dropped}); counts != want {
					r.Errorf("seed %d: %+v, want %+v", seed, counts, want)
				}
			})
		})
	}
}

// Redis is unavailable for hours, and then replicas come back one after the other.
func TestCountsAreExactAfterLongOutage(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.changeReport(validReport("p", 1))
		r.counts.replicas = append(r.counts.replicas, busiest.NewCounter("b", time.Now(), busiest.MaxTracked))
		both := r.counts.replicas
		r.after(time.Minute, func() { r.counts.err = errors.New("unavailable") })
		r.after(2*time.Hour, func() {
			r.decideOn(0, "p", 1, busiest.Counts{Admitted: 5})
			r.decideOn(1, "p", 1, busiest.Counts{Merged: 7})
		})
		r.after(3*time.Hour, func() { r.counts.err, r.counts.replicas = nil, both[:1] })
		r.after(3*time.Hour+15*time.Second, func() { r.counts.replicas = both })
		r.runLeader(4 * time.Hour)
		if got := r.writes[len(r.writes)-1].status.Total; got.Admitted != 5 || got.Merged != 7 {
			r.Errorf("%+v, want 5 admitted and 7 merged", *got)
		}
	})
}

// A replica that has just started has no snapshot yet when a leader first collects counts.
func TestCountsBeforeFirstSnapshotAreIncluded(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.changeReport(validReport("p", 1))
		r.counts.replicas = append(r.counts.replicas, busiest.NewCounter("b", time.Now(), busiest.MaxTracked))
		both := r.counts.replicas
		r.decideOn(1, "p", 1, busiest.Counts{Dropped: 3})
		r.counts.replicas = both[:1]
		r.after(5*time.Second, func() { r.counts.replicas = both })
		r.runLeader(8 * time.Minute)
		if got := r.writes[len(r.writes)-1].status.Total; got.Dropped != 3 {
			r.Errorf("%+v, want 3 dropped", *got)
		}
	})
}

func TestTopSourcesOfAllReplicas(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.changeReport(validReport("p", 1))
		r.counts.replicas = append(r.counts.replicas, busiest.NewCounter("b", time.Now(), busiest.MaxTracked))
		refuse := func(replica int, name string, n int) {
			for range n {
				r.counts.replicas[replica].CountDecision(decided("p", 1, store.Drop, name))
			}
		}
		r.after(time.Second, func() {
			for i := range 7 {
				refuse(0, fmt.Sprint("quiet-", i), 2)
			}
			refuse(0, "both", 5)
			refuse(1, "both", 5)
			refuse(1, "one", 8)
		})
		r.after(time.Minute, func() { refuse(1, "one", 4) })
		r.after(6*time.Minute, func() { refuse(1, "late", 1) })
		r.after(11*time.Minute, func() { r.decide("p", 1, busiest.Counts{Admitted: 1}) })
		r.runLeader(20 * time.Minute)
		r.wantWritten("0s: p@1 0/0/0", "5m0s: p@1 0/0/36", "10m0s: p@1 0/0/37", "15m0s: p@1 1/0/37")
		top := r.writes[1].status.TopSources
		if len(top) != 5 || top[0].InvolvedObject != "Pod shop/one" || top[0].Dropped != 12 || top[1].InvolvedObject != "Pod shop/both" || top[1].Dropped != 10 || top[2].Dropped != 2 {
			r.Errorf("top sources %+v", top)
		}
		for _, w := range r.writes[2:] {
			if top := w.status.TopSources; len(top) != 1 || top[0].InvolvedObject != "Pod shop/late" || top[0].Dropped != 1 {
				r.Errorf("top sources %+v, want the one refused last", top)
			}
		}
	})
}

// The condition stays after a change of leader, until there is a new generation.
func TestFailedConditionIsReported(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.changeReport(validReport("p", 1))
		d := decided("other", 1, store.Admit, "web")
		d.Errors = []*policy.EvaluationError{{
			Rule: decided("p", 1, store.Admit, "").Rule, Field: `condition "team"`, Err: errors.New("no such key: te\u202eam\x1b[2J"),
		}}
		r.after(65*time.Second, func() { r.counts.replicas[0].CountDecision(d) })
		r.runLeader(10 * time.Minute)
		r.after(time.Minute, func() { r.decide("p", 1, busiest.Counts{Admitted: 1}) })
		r.after(20*time.Minute-500*time.Millisecond, func() { r.changeReport(validReport("p", 2)) })
		r.runLeader(30 * time.Minute)
		r.wantWritten("0s: p@1 0/0/0", "1m10s: p@1 0/0/0", "15m0s: p@1 1/0/0", "30m0s: p@2 0/0/0")
		said := "evaluation failed for some Events, for example: condition \"team\": no such key: te\ufffdam\ufffd[2J"
		for i, want := range []string{"", said, said, ""} {
			got := ""
			if c := meta.FindStatusCondition(r.writes[i].status.Conditions, v1alpha1.ConditionErrors); c != nil {
				got = c.Message
			}
			if got != want {
				r.Errorf("write %d: %q, want %q", i, got, want)
			}
		}
	})
}

// The condition stays for ten minutes after the last overflow, also after a change of leader.
func TestOverflowConditionLifetime(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.changeReport(validReport("p", 1))
		d := decided("other", 1, store.Drop, "web")
		d.Request.Namespace, d.OverflowQuota = "shop", decided("p", 1, store.Admit, "").Rule
		r.after(65*time.Second, func() { r.counts.replicas[0].CountDecision(d) })
		r.runLeader(3 * time.Minute)
		r.runLeader(20 * time.Minute)
		r.wantWritten("0s: p@1 0/0/0", "1m10s: p@1 0/0/0", "13m0s: p@1 0/0/0")
		var said []string
		for _, w := range r.writes {
			message := ""
			if c := meta.FindStatusCondition(w.status.Conditions, v1alpha1.ConditionOverflow); c != nil {
				message = c.Message
			}
			said = append(said, message)
		}
		if len(said) != 3 || said[0] != "" || !strings.Contains(said[1], "namespace shop has reached its bound") || said[2] != "" {
			r.Errorf("the condition says %q, want an overflow of shop in between", said)
		}
	})
}
