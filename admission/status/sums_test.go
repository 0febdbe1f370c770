package status_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/store"
)

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
			bubble(t, func(r *rig) {
				r.changed(valid("p", 1))
				r.decide("p", 1, busiest.Counts{Admitted: 5})
				r.lead(9 * time.Second)
				between(r)
				r.after(time.Second, func() { r.decide("p", 1, busiest.Counts{Admitted: 2}) })
				r.lead(10 * time.Minute)
				r.wantWritten("0s: p@1 5/0/0", "5m1s: p@1 7/0/0")
				first, second := r.writes[0].status.Total, r.writes[1].status.Total
				if !first.Since.Equal(second.Since) {
					r.Errorf("counted since %v, and then since %v", first.Since, second.Since)
				}
			})
		})
	}
}

var seeds = flag.Uint64("seeds", 2, "how many random courses of events TestSumsAreExact takes")

// TestSumsAreExact lets replicas count, restart, vanish for a while, and leaders follow each other.
func TestSumsAreExact(t *testing.T) {
	t.Parallel()
	for seed := range *seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(r *rig) {
				random := mathrand.New(mathrand.NewPCG(seed, 1))
				r.changed(valid("p", 1))
				r.counts.replicas = append(r.counts.replicas, busiest.NewCounter("b", time.Now(), busiest.Places), busiest.NewCounter("c", time.Now(), busiest.Places))
				var want busiest.Counts
				for range 30 {
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
				r.lead(10 * time.Minute)
				got := r.writes[len(r.writes)-1].status.Total
				if is := (busiest.Counts{Admitted: got.Admitted, Merged: got.Merged, Dropped: got.Dropped}); is != want {
					r.Errorf("seed %d: %+v, want %+v", seed, is, want)
				}
			})
		})
	}
}

func TestOddSumsAreNone(t *testing.T) {
	t.Parallel()
	for _, saved := range []string{`null`, `{"seen":null,"rules":null}`, `{"rules":{"uid of another/1":null}}`} {
		t.Run(saved, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.counts.saved = []byte(saved)
				r.changed(valid("p", 1))
				r.decide("p", 1, busiest.Counts{Admitted: 5})
				r.lead(9 * time.Second)
				r.wantWritten("0s: p@1 5/0/0")
			})
		})
	}
}

// Redis could not be reached for hours, and replicas come back one after the other.
func TestSumsAreExactAfterALongOutage(t *testing.T) {
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
func TestSumsOfEarlierGenerationsAreForgotten(t *testing.T) {
	bubble(t, func(r *rig) {
		const edits = 60
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
	bubble(t, func(r *rig) {
		r.changed(valid("p", 1))
		r.counts.replicas = append(r.counts.replicas, busiest.NewCounter("b", time.Now(), busiest.Places))
		refuse := func(replica int, name string, n int) {
			for range n {
				r.counts.replicas[replica].CountRule("", busiest.RuleID{UID: "uid of p", Generation: 1}, store.Drop, busiest.Subject{Object: store.Object{Name: name}})
			}
		}
		for i := range 7 {
			refuse(0, fmt.Sprint("quiet-", i), 2)
		}
		refuse(0, "both", 5)
		refuse(1, "both", 5)
		refuse(1, "one", 8)
		r.after(time.Minute, func() { refuse(1, "one", 4) })
		r.lead(10 * time.Minute)
		top := r.writes[len(r.writes)-1].status.TopSources
		if len(top) != 5 || top[0].InvolvedObject.Name != "one" || top[0].Dropped != 12 || top[1].InvolvedObject.Name != "both" || top[1].Dropped != 10 || top[2].Dropped != 2 {
			r.Errorf("top sources %+v", top)
		}
	})
}
