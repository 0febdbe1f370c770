package interleave

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/test/interleave/luaredis"
)

// Result is what came of one schedule.
type Result struct {
	Seed       uint64
	Steps      []string // what happened, in order
	Violations []Violation
	Trace      []string // the same with what came of it, for reading
	Hash       uint64   // of Trace
}

// Kinds are the kinds of what does not hold, sorted.
func (r *Result) Kinds() []Kind {
	var kinds []Kind
	for _, v := range r.Violations {
		if !slices.Contains(kinds, v.Kind) {
			kinds = append(kinds, v.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// Run runs one schedule: a random one, or what of a plan can happen.
func Run(t *testing.T, m *Mix, seed uint64, engine *luaredis.Engine, plan []string) *Result {
	t.Helper()
	r := &Result{Seed: seed}
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(*testing.T) { newWorld(m, seed, engine).play(r, plan) })
	h := fnv.New64a()
	for _, line := range r.Trace {
		_, _ = h.Write([]byte(line + "\n")) // never fails
	}
	r.Hash = h.Sum64()
	return r
}

// tick is what each step takes, and a nanosecond more than the one before, so that no two calls begin at the same time, and no
// deadlines coincide: timers that are due at the same time go off in a random order.
const tick = 13 * time.Microsecond

// play runs a schedule to its end.
func (w *world) play(r *Result, plan []string) {
	for i := range w.mix.Replicas {
		w.replicas = append(w.replicas, w.newReplica(fmt.Sprint("replica ", i+1), true))
		<-time.After(7 * time.Millisecond) // no two are in step
	}
	note := func(what string) {
		synctest.Wait()
		r.Trace = append(r.Trace, fmt.Sprintf("%4d. %-9v %s", len(r.Steps), w.since().Round(100*time.Microsecond), what))
		for _, said := range w.sortedNotes() {
			r.Trace = append(r.Trace, "                    -> "+said)
		}
	}
	choose := w.random(r.Seed)
	w.onForward = func(*operation) {}
	if plan != nil {
		w.onForward = func(o *operation) {
			what := "carried out"
			if o.ran {
				what = "answered"
			}
			note(what + ": " + o.id)
		}
		choose = planned(plan)
	}
	for plan != nil || len(r.Steps) < w.mix.Steps {
		<-time.After(tick + time.Duration(len(r.Steps)))
		synctest.Wait()
		a := choose(w.enabled())
		if a == nil {
			break
		}
		a.do()
		r.Steps = append(r.Steps, a.id)
		note(a.id)
	}
	w.end()
	note("all faults cease, everybody finishes, the replicas stop, and all is settled")
	r.Violations = w.violations
}

// random chooses by the weights of actions.
func (w *world) random(seed uint64) func([]action) *action {
	rng := rand.New(rand.NewPCG(seed, 2))
	return func(all []action) *action {
		sum := 0
		for i := range all {
			sum += all[i].weight
		}
		n := rng.IntN(sum)
		for i := range all {
			if n -= all[i].weight; n < 0 {
				return &all[i]
			}
		}
		return nil
	}
}

// planned chooses what is next of a plan, of what can happen: that very action, or else the first that differs in numbers
// only.
func planned(plan []string) func([]action) *action {
	return func(all []action) *action {
		for len(plan) > 0 {
			next := plan[0]
			plan = plan[1:]
			if i := slices.IndexFunc(all, func(a action) bool { return a.id == next }); i >= 0 {
				return &all[i]
			}
			if i := slices.IndexFunc(all, func(a action) bool { return withoutNumbers(a.id) == withoutNumbers(next) }); i >= 0 {
				return &all[i]
			}
		}
		return nil
	}
}

// withoutNumbers is an action without what may differ after other steps.
func withoutNumbers(id string) string {
	id, _, _ = strings.Cut(id, ", count")
	before, after, found := strings.Cut(id, ", for ")
	if found {
		_, of, _ := strings.Cut(after, ", of ")
		return before + of
	}
	return id
}
