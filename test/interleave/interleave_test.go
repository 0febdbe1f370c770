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
	seeds   = flag.Int("seeds", 1000, "schedules of each mix")
	tries   = flag.Int("tries", 300, "runs in which a schedule that fails is shrunk; with 0 a mix ends at the first one that fails")
	only    = flag.String("mix", "", "run this mix only")
	first   = flag.Uint64("seed", 1, "the first seed")
	verbose = flag.Bool("print", false, "print what happens in a schedule that fails, as it is before it is shrunk")
)

// TestMain lets goroutines take turns on one processor: with more the order in which those go on that one step has
// woken would be another each time.
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

// report shows the shortest schedule that fails like one.
func report(t *testing.T, m *interleave.Mix, engine *luaredis.Engine, r *interleave.Result, kind interleave.Kind) {
	t.Helper()
	if *verbose {
		t.Log("\n" + strings.Join(r.Trace, "\n"))
	}
	shrunk := interleave.Shrink(r, kind, *tries, func(plan []string) *interleave.Result {
		return interleave.Run(t, m, r.Seed, engine, plan)
	})
	t.Errorf("seed %d of mix %s: %s, in %d steps of %d:\n%s", r.Seed, m.Name, kind, len(shrunk.Steps), len(r.Steps), strings.Join(shrunk.Trace, "\n"))
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
					t.Errorf("seed %d differs: %s", seed, difference(a.Trace, b.Trace))
				}
			}
		})
	}
}

func difference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			from := max(0, i-3)
			return fmt.Sprintf("\n%s\n---\n%s", strings.Join(a[from:i+1], "\n"), strings.Join(b[from:i+1], "\n"))
		}
	}
	return "one is longer"
}
