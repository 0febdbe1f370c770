package status_test

import (
	"bytes"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/store"
)

// told are the writes, each as one line.
func (r *rig) told() []string {
	var lines []string
	for _, w := range r.writes {
		line := fmt.Sprintf("%v: %s@%d", w.at.Round(time.Second), w.policy, w.status.ObservedGeneration)
		if meta.IsStatusConditionFalse(w.status.Conditions, v1alpha1.ConditionAccepted) {
			line += " invalid"
		}
		if c := w.status.Total; c != nil {
			line += fmt.Sprintf(" %d/%d/%d", c.Admitted, c.Merged, c.Dropped)
		}
		lines = append(lines, line)
	}
	return lines
}

func (r *rig) wantTold(want ...string) {
	r.Helper()
	if got := r.told(); !slices.Equal(got, want) {
		r.Errorf("written:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestANewGenerationIsToldAtOnceAndItsFixAfterHalfAMinute(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.after(7*time.Second, func() { r.changed(invalid("p", 1, 0)) })
		r.after(12*time.Second, func() { r.changed(valid("p", 2)) })
		r.after(24*time.Second, func() { r.changed(valid("other", 1)) })
		r.lead(time.Hour)
		r.wantTold("7s: p@1 invalid", "24s: other@1 0/0/0", "37s: p@2 0/0/0")
	})
}

func TestCountsAreToldWhenTheyChangeAndAtMostTwiceAMinute(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.changed(valid("p", 1))
		for i := range uint64(61) {
			r.after(time.Duration(i)*time.Second+500*time.Millisecond, func() { r.decide("p", 1, busiest.Counts{Admitted: 1, Merged: 2}) })
		}
		r.lead(30 * time.Minute) // within the hour
		r.wantTold("0s: p@1 0/0/0", "30s: p@1 30/60/0", "1m0s: p@1 60/120/0", "1m30s: p@1 61/122/0")
	})
}

func TestAnHourThatHasPassedIsToldOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.changed(valid("p", 1))
		r.decide("p", 1, busiest.Counts{Dropped: 3})
		r.lead(5 * time.Hour)
		last := r.writes[len(r.writes)-1].status
		if len(r.writes) != 2 || last.Total.Dropped != 3 || last.LastHour.Matched != 0 || len(last.TopSources) != 0 {
			r.Errorf("written %q, in the end %+v", r.told(), last)
		}
		if first := r.writes[0].status; first.LastHour.Dropped != 3 || first.TopSources[0].InvolvedObject.Name != "web" {
			r.Errorf("written at first %+v", first)
		}
	})
}

func TestTheNextLeaderGoesOn(t *testing.T) {
	t.Parallel()
	for says, between := range map[string]func(r *rig){
		"with the same replicas": func(*rig) {},
		"in another process, as the store is this replica's alone": func(r *rig) {
			r.counts.restart(0)
			r.counts.saved = nil
		},
		"after a rolling update": func(r *rig) { r.counts.restart(0) },
		"though Redis has lost all, and replicas share again what they had": func(r *rig) { r.counts.saved = nil },
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(r *rig) {
				r.changed(valid("p", 1))
				r.decide("p", 1, busiest.Counts{Admitted: 5})
				r.lead(9 * time.Second)
				between(r)
				r.after(time.Second, func() { r.decide("p", 1, busiest.Counts{Admitted: 2}) })
				r.lead(time.Minute)
				r.wantTold("0s: p@1 5/0/0", "31s: p@1 7/0/0")
				first, second := r.writes[0].status.Total, r.writes[1].status.Total
				if !first.Since.Equal(second.Since) {
					r.Errorf("counted since %v, and then since %v", first.Since, second.Since)
				}
			})
		})
	}
}

// TestSumsAreExact lets replicas count, restart, vanish for a while, and leaders follow each other.
func TestSumsAreExact(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		bubble(t, func(r *rig) {
			random := mathrand.New(mathrand.NewPCG(seed, 1))
			r.changed(valid("p", 1))
			r.counts.replicas = append(r.counts.replicas, busiest.NewCounter("b", time.Now(), busiest.Places), busiest.NewCounter("c", time.Now(), busiest.Places))
			var want busiest.Counts
			for range 60 {
				c := busiest.Counts{Admitted: random.Int64N(9), Merged: random.Int64N(9), Dropped: random.Int64N(9)}
				r.decideOn(random.IntN(3), "p", 1, c)
				want = want.Add(c)
				r.lead(time.Duration(1+random.IntN(40)) * time.Second) // each leader looks as it begins
				replica := random.IntN(3)
				if random.IntN(2) == 0 {
					r.counts.restart(replica)
				}
				if random.IntN(2) == 0 { // its snapshot has expired or is to come yet
					hidden := r.counts.replicas[replica]
					r.counts.replicas = slices.Delete(r.counts.replicas, replica, replica+1)
					r.lead(10 * time.Minute)
					r.counts.replicas = slices.Insert(r.counts.replicas, replica, hidden)
				}
			}
			r.lead(time.Minute)
			got := r.writes[len(r.writes)-1].status.Total
			if is := (busiest.Counts{Admitted: got.Admitted, Merged: got.Merged, Dropped: got.Dropped}); is != want {
				r.Errorf("seed %d: %+v, want %+v", seed, is, want)
			}
		})
	}
}

func TestOddSumsAreNone(t *testing.T) {
	t.Parallel()
	for _, saved := range []string{`null`, `{"seen":null,"policies":null}`, `{"policies":{"uid of another/1":null}}`} {
		bubble(t, func(r *rig) {
			r.counts.saved = []byte(saved)
			r.changed(valid("p", 1))
			r.decide("p", 1, busiest.Counts{Admitted: 5})
			r.lead(9 * time.Second)
			r.wantTold("0s: p@1 5/0/0")
		})
	}
}

// Redis could not be reached for hours, and replicas come back one after the other.
func TestSumsAreExactAfterALongOutage(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.changed(valid("p", 1))
		r.counts.replicas = append(r.counts.replicas, busiest.NewCounter("b", time.Now(), busiest.Places))
		r.decideOn(0, "p", 1, busiest.Counts{Admitted: 5})
		r.decideOn(1, "p", 1, busiest.Counts{Merged: 7})
		both := r.counts.replicas
		r.after(time.Minute, func() { r.counts.away = errors.New("away") })
		r.after(3*time.Hour, func() { r.counts.away, r.counts.replicas = nil, both[:1] })
		r.after(3*time.Hour+15*time.Second, func() { r.counts.replicas = both })
		r.lead(4 * time.Hour)
		if got := r.writes[len(r.writes)-1].status.Total; got.Admitted != 5 || got.Merged != 7 {
			r.Errorf("%+v, want 5 admitted and 7 merged", *got)
		}
	})
}

// An edit makes a generation, and a sum of its own.
func TestSumsOfGenerationsThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		const edits = 200
		for g := range int64(edits) {
			r.after(time.Duration(g)*20*time.Second, func() {
				r.changed(valid("p", g+1))
				r.decide("p", g+1, busiest.Counts{Merged: 1})
			})
		}
		r.lead(edits * 20 * time.Second)
		if n := bytes.Count(r.counts.saved, []byte(`"wanted"`)); n > 40 {
			r.Errorf("%d sums are kept, want those of ten minutes", n)
		}
	})
}

func TestTopSourcesAreThoseOfAllReplicas(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.changed(valid("p", 1))
		r.counts.replicas = append(r.counts.replicas, busiest.NewCounter("b", time.Now(), busiest.Places))
		refuse := func(replica int, name string, n int) {
			for range n {
				r.counts.replicas[replica].CountRule(busiest.RuleID{UID: "uid of p", Generation: 1}, store.Drop, busiest.Subject{Object: store.Object{Name: name}})
			}
		}
		for i := range 7 {
			refuse(0, fmt.Sprint("quiet-", i), 2)
		}
		refuse(0, "both", 5)
		refuse(1, "both", 5)
		refuse(1, "one", 8)
		r.after(time.Minute, func() { refuse(1, "one", 4) })
		r.lead(2 * time.Minute)
		top := r.writes[len(r.writes)-1].status.TopSources
		if len(top) != 5 || top[0].InvolvedObject.Name != "one" || top[0].Dropped != 12 || top[1].InvolvedObject.Name != "both" || top[1].Dropped != 10 || top[2].Dropped != 2 {
			r.Errorf("top sources %+v", top)
		}
	})
}

func TestWhileReplicasCannotBeAskedOnlyCountsStayAsTheyWere(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.changed(valid("p", 1))
		r.decide("p", 1, busiest.Counts{Admitted: 5})
		r.after(5*time.Second, func() { r.counts.away = errors.New("away") })
		r.after(42*time.Second, func() { r.changed(invalid("p", 2, 1)) })
		r.after(55*time.Second, func() { r.changed(valid("new", 1)) })
		r.after(99*time.Second, func() { r.counts.away = nil })
		r.lead(5 * time.Minute)
		r.wantTold("0s: p@1 5/0/0", "42s: p@2 invalid 5/0/0", "55s: new@1 0/0/0")
		if len(r.logged) != 2 { // once a minute
			r.Errorf("logged %q, want one line a minute", r.logged)
		}
	})
}

func TestCountsBeginAnewWithAGeneration(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.changed(valid("p", 1))
		r.decide("p", 1, busiest.Counts{Admitted: 5})
		r.after(44*time.Second, func() { r.changed(valid("p", 2)) })
		r.after(46*time.Second, func() { r.decide("p", 2, busiest.Counts{Merged: 1}) })
		r.lead(5 * time.Minute)
		r.wantTold("0s: p@1 5/0/0", "44s: p@2 0/0/0", "1m14s: p@2 0/1/0")
		if since := r.writes[2].status.Total.Since.Sub(r.began); since != 44*time.Second {
			r.Errorf("counted since %v, want the 44s at which the generation was new", since)
		}
	})
}

func TestAFailureIsTriedAgainLessAndLessOften(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.refuse = errors.New("forbidden")
		r.changed(valid("p", 1))
		r.after(50*time.Second, func() { r.refuse = nil })
		r.lead(5 * time.Minute)
		r.wantTold("0s: p@1 0/0/0", "1s: p@1 0/0/0", "3s: p@1 0/0/0", "7s: p@1 0/0/0", "15s: p@1 0/0/0", "31s: p@1 0/0/0", "1m3s: p@1 0/0/0")
		if len(r.logged) != 1 {
			r.Errorf("logged %q, want one line", r.logged)
		}
	})
}

func TestOfAPolicyThatIsGoneNothingIsWritten(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.changed(valid("p", 1))
		r.decide("p", 1, busiest.Counts{Admitted: 5})
		r.after(5*time.Second, func() {
			r.decide("p", 1, busiest.Counts{Admitted: 5})
			r.reports = nil
		})
		r.lead(5 * time.Minute)
		r.wantTold("0s: p@1 5/0/0")
	})
}

func TestAReplicaThatLagsBehindSaysNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		r.changed(valid("p", 1))
		r.store(r.objects["uid of p"], &v1alpha1.Status{ObservedGeneration: 2})
		r.lead(5 * time.Minute)
		r.wantTold()
	})
}

func TestThousandsOfPoliciesDoNotStormTheAPIServer(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		for i := range 2000 {
			r.changed(valid(fmt.Sprint("p", i), 1))
		}
		// All are written once; then all have counts to tell, and one that was
		// written later than most is changed.
		r.after(5*time.Minute, func() {
			for i := range uint64(2000) {
				r.decide(fmt.Sprint("p", i), 1, busiest.Counts{Admitted: 1})
			}
		})
		const late = 6*time.Minute + 3300*time.Millisecond
		r.after(late, func() { r.changed(valid("p1", 2)) })
		r.lead(10 * time.Minute)
		if len(r.writes) != 4000 && len(r.writes) != 4001 { // it may be written in between
			r.Errorf("%d writes, want 4000 or 4001", len(r.writes))
		}
		told := false
		for i, w := range r.writes {
			if i >= 30 && w.at-r.writes[i-30].at < 1900*time.Millisecond {
				r.Fatalf("30 writes within %v", w.at-r.writes[i-30].at)
			}
			told = told || w.status.ObservedGeneration == 2 && w.at < late+2*time.Second
		}
		if !told {
			r.Error("the changed one has to wait for others")
		}
	})
}
