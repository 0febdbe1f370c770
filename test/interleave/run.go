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

// Result is the result of one schedule.
type Result struct {
	Seed       uint64
	Steps      []string // IDs of the actions, in order
	Violations []Violation
	Trace      []string // the steps and their effects, for readers
	Hash       uint64   // hash of Trace
}

// Kinds returns the kinds of violations, sorted.
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

// Run runs one schedule. It is random unless plan is not nil; then it has those steps of plan that are possible.
func Run(t *testing.T, m *Mix, seed uint64, engine *luaredis.Engine, plan []string) *Result {
	t.Helper()
	r := &Result{Seed: seed}
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(*testing.T) { newWorld(m, seed, engine).play(r, plan) })
	h := fnv.New64a()
	for _, line := range r.Trace {
		_, _ = h.Write([]byte(line + "\n")) // a hash never fails
	}
	r.Hash = h.Sum64()
	return r
}

// stepTime is the time that the first step takes. Each later step takes a nanosecond more than the one before, so that no two calls start at
// the same time and no deadlines coincide. Timers that are due at the same time would fire in random order.
const stepTime = 13 * time.Microsecond

// play runs a schedule to its end.
func (w *world) play(r *Result, plan []string) {
	for i := range w.mix.Replicas {
		w.replicas = append(w.replicas, w.newReplica(fmt.Sprint("replica ", i+1), true))
		<-time.After(7 * time.Millisecond) // so that no timers of two replicas coincide
	}
	note := func(step string) {
		synctest.Wait()
		r.Trace = append(r.Trace, fmt.Sprintf("%4d. %-9v %s", len(r.Steps), w.since().Round(100*time.Microsecond), step))
		for _, line := range w.takeNotes() {
			r.Trace = append(r.Trace, "                    -> "+line)
		}
	}
	choose := w.random(r.Seed)
	w.onForward = func(*operation) {}
	if plan != nil {
		w.onForward = func(o *operation) {
			stage := "executed"
			if o.ran {
				stage = "answered"
			}
			note(stage + ": " + o.id)
		}
		choose = planned(plan)
	}
	for plan != nil || len(r.Steps) < w.mix.Steps {
		<-time.After(stepTime + time.Duration(len(r.Steps)))
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
	note("all faults end, everybody finishes, the replicas stop, and all pending counts are written")
	r.Violations = w.violations
}

// random returns a function that chooses actions at random, by their weights.
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

// planned returns a function that chooses the next possible step of a plan: the same action, or the first one that differs
// only in numbers.
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

// withoutNumbers returns an action's ID without the parts that depend on earlier steps.
func withoutNumbers(id string) string {
	id, _, _ = strings.Cut(id, ", count")
	before, after, found := strings.Cut(id, ", for ")
	if found {
		_, of, _ := strings.Cut(after, ", of ")
		return before + of
	}
	return id
}
