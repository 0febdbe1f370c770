package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eventquota/eventquota/store"
)

// A random FairLRU is what a slow model of it says: what is evicted, what fits, and what it holds.
func TestFairLRUMatchesModel(t *testing.T) {
	type item struct {
		key, namespace string
		size           int64
		pinned         bool
	}
	for seed := range uint64(100) {
		const most = 100
		rng := rand.New(rand.NewPCG(seed, 0))
		table := store.NewFairLRU[string](most)
		var model []item // used longest ago first
		sum := func(is func(item) bool) (n int64) {
			for _, one := range model {
				if is(one) {
					n += one.size
				}
			}
			return n
		}
		all := func(item) bool { return true }
		for range 400 {
			key := fmt.Sprint("key", rng.IntN(20))
			e := table.Get(store.KeyOf(key))
			at := slices.IndexFunc(model, func(one item) bool { return one.key == key })
			if (e == nil) != (at < 0) || e != nil && (e.Value != key) {
				t.Fatalf("seed %d: %+v, want that of %s in %+v", seed, e, key, model)
			}
			switch used := (item{key, fmt.Sprint("ns", rng.IntN(4)), rng.Int64N(30), rng.IntN(3) == 0}); {
			case e != nil && rng.IntN(6) == 0:
				table.Remove(e)
				model = slices.Delete(model, at, at+1)
			case e != nil:
				used.namespace = model[at].namespace
				table.Update(e, used.size, used.pinned)
				model = append(slices.Delete(model, at, at+1), used)
			default:
				table.Update(table.Add(store.KeyOf(key), used.namespace, key), used.size, used.pinned)
				model = append(model, used)
			}
			namespace, more := fmt.Sprint("ns", rng.IntN(5)), rng.Int64N(40)
			own := sum(func(one item) bool { return one.pinned && one.namespace == namespace })
			pinned := sum(func(one item) bool { return one.pinned })
			if fits := table.CanPin(namespace, more); fits != (own+more <= most-pinned) {
				t.Fatalf("seed %d: %d more of %s beside %+v fits: %t", seed, more, namespace, model, fits)
			}
			for table.Size() > most {
				e := table.Evict(0)
				if e == nil {
					break
				}
				at := slices.IndexFunc(model, func(one item) bool { return one.key == e.Value })
				victim := model[at]
				held := func(namespace string) int64 { return sum(func(one item) bool { return one.namespace == namespace }) }
				for i, other := range model {
					switch {
					case other.pinned:
					case held(other.namespace) > held(victim.namespace), other.namespace == victim.namespace && i < at, victim.pinned:
						t.Fatalf("seed %d: %+v is evicted of %+v, want one like %+v", seed, victim, model, other)
					}
				}
				model = slices.Delete(model, at, at+1)
			}
			if table.Evict(0) != nil || table.Len() != len(model) || table.Size() != sum(all) {
				t.Fatalf("seed %d: %d entries of %d, want %+v", seed, table.Len(), table.Size(), model)
			}
			if left := sum(func(one item) bool { return !one.pinned }); table.Size() > most && left > 0 {
				t.Fatalf("seed %d: more than the bound is kept although %d could be evicted", seed, left)
			}
		}
	}
}
