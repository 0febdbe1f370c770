package interleave_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/test/interleave"
	"github.com/eventquota/eventquota/test/interleave/luaredis"
)

var (
	seeds   = flag.Int("seeds", 50, "number of schedules for each mix")
	tries   = flag.Int("tries", 300, "maximal number of runs to shrink a failing schedule; 0 shrinks none, and ends a mix at its first failure")
	only    = flag.String("mix", "", "run only this mix")
	first   = flag.Uint64("seed", 1, "first seed")
	verbose = flag.Bool("print", false, "print a failing schedule before it is shrunk")
)

// TestMain restricts the program to one processor. With more, the goroutines that a step wakes would run in a different order each time.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

func TestInterleavings(t *testing.T) {
	engine := luaredis.NewEngine()
	for _, m := range interleave.Mixes() {
		if *only != "" && *only != m.Name {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			found := map[interleave.Kind]bool{}
			began := time.Now()
			for seed := *first; seed < *first+uint64(*seeds); seed++ {
				r := interleave.Run(t, &m, seed, engine, nil)
				for _, kind := range r.Kinds() {
					if found[kind] {
						continue
					}
					found[kind] = true
					report(t, &m, engine, r, kind)
				}
				if t.Failed() && *tries == 0 {
					return
				}
			}
			t.Logf("%d schedules, %.0f a second", *seeds, float64(*seeds)/time.Since(began).Seconds())
		})
	}
}

// report shrinks a failing schedule and fails the test with the result.
func report(t *testing.T, m *interleave.Mix, engine *luaredis.Engine, r *interleave.Result, kind interleave.Kind) {
	t.Helper()
	if *verbose {
		t.Log("\n" + strings.Join(r.Trace, "\n"))
	}
	shrunk := interleave.Shrink(r, kind, *tries, func(plan []string) *interleave.Result {
		return interleave.Run(t, m, r.Seed, engine, plan)
	})
	t.Errorf("seed %d of mix %s: %s, in %d of %d steps:\n%s", r.Seed, m.Name, kind, len(shrunk.Steps), len(r.Steps), strings.Join(shrunk.Trace, "\n"))
}

func TestSchedulesAreDeterministic(t *testing.T) {
	engine := luaredis.NewEngine()
	for _, m := range interleave.Mixes() {
		if *only != "" && *only != m.Name {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			for seed := *first; seed < *first+uint64(max(*seeds/100, 1)); seed++ {
				a, b := interleave.Run(t, &m, seed, engine, nil), interleave.Run(t, &m, seed, engine, nil)
				if a.Hash != b.Hash {
					t.Errorf("seed %d: two runs differ: %s", seed, difference(a.Trace, b.Trace))
				}
			}
		})
	}
}

// difference returns the parts of two traces around their first difference.
func difference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			from := max(0, i-3)
			return fmt.Sprintf("\n%s\n---\n%s", strings.Join(a[from:i+1], "\n"), strings.Join(b[from:i+1], "\n"))
		}
	}
	return "one run is longer"
}
