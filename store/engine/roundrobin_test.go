package engine

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eventquota/eventquota/store"
)

// Random picks follow the contract: namespaces take turns, starting after the one that was served last, and within a
// namespace the most overdue groups come first.
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
			notDue := map[store.Key]bool{}
			for _, d := range due {
				notDue[d.Group] = rng.IntN(3) == 0
			}
			n := rng.IntN(12)
			want := pickSlowly(due, n, served, notDue)
			offered := 0
			got := turns.Pick(DueQueues(due), n, func(namespace string, group store.Key) bool {
				if i := slices.IndexFunc(due, func(d DueGroup) bool { return d.Group == group }); due[i].Turn != namespace {
					t.Fatalf("a group of %s is offered as one of %s", due[i].Turn, namespace)
				}
				if !notDue[group] {
					offered++
				}
				return notDue[group]
			})
			if !slices.Equal(got, want) || offered != len(got) {
				t.Fatalf("seed %d: picked %v with %d offered; want %v, and no more offered", seed, got, offered, want)
			}
			if len(got) > 0 {
				served = got[len(got)-1].Turn
			}
		}
	}
}

// pickSlowly is the model: it picks the groups one after the other.
func pickSlowly(due []DueGroup, n int, served string, notDue map[store.Key]bool) []DueGroup {
	due = slices.DeleteFunc(slices.Clone(due), func(d DueGroup) bool { return notDue[d.Group] })
	var picked []DueGroup
	for len(due) > 0 && len(picked) < n {
		behind := func(d DueGroup) int { // the namespace served last, and those before it by name, come after the others
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
