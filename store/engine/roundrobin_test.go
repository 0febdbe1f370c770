package engine

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eventquota/eventquota/store"
)

// Random claims are what the contract says: namespaces have their turns, beginning after the one that
// was served last, and within one the most overdue come first.
func TestRoundRobinMatchesModel(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var turns RoundRobin
		served := ""
		for range 20 {
			due := make([]DueGroup, rng.IntN(40))
			for i := range due {
				due[i] = DueGroup{store.KeyOf(fmt.Sprint(i)), fmt.Sprint("ns", rng.IntN(7)), rng.Int64N(9)}
			}
			taken := map[store.Key]bool{}
			for _, d := range due {
				taken[d.Group] = rng.IntN(3) == 0
			}
			n := rng.IntN(12)
			want := next(due, n, served, taken)
			offered := 0
			got := turns.Pick(DueQueues(due), n, func(namespace string, group store.Key) bool {
				if i := slices.IndexFunc(due, func(d DueGroup) bool { return d.Group == group }); due[i].Turn != namespace {
					t.Fatalf("a group of %s is asked for as one of %s", due[i].Turn, namespace)
				}
				if !taken[group] {
					offered++
				}
				return taken[group]
			})
			if !slices.Equal(got, want) || offered != len(got) {
				t.Fatalf("seed %d: %v, %d offered; want %v", seed, got, offered, want)
			}
			if len(got) > 0 {
				served = got[len(got)-1].Turn
			}
		}
	}
}

// next is the slow way to say which groups are picked: one after the other.
func next(due []DueGroup, n int, served string, taken map[store.Key]bool) []DueGroup {
	due = slices.DeleteFunc(slices.Clone(due), func(d DueGroup) bool { return taken[d.Group] })
	var picked []DueGroup
	for len(due) > 0 && len(picked) < n {
		behind := func(d DueGroup) int { // who had the last turn, and all before by name, come after the others
			if d.Turn <= served {
				return 1
			}
			return 0
		}
		first := slices.MinFunc(due, func(a, b DueGroup) int {
			return cmp.Or(behind(a)-behind(b), cmp.Compare(a.Turn, b.Turn),
				cmp.Compare(a.Due, b.Due), slices.Compare(a.Group[:], b.Group[:]))
		})
		picked, served = append(picked, first), first.Turn
		due = slices.DeleteFunc(due, func(d DueGroup) bool { return d.Group == first.Group })
	}
	return picked
}
