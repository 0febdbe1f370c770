package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eventquota/eventquota/store"
)

// TestFairLRUMatchesModel compares random operations with a slow model: the entries, their size, evictions and CanPin.
func TestFairLRUMatchesModel(t *testing.T) {
	type item struct {
		key, namespace string
		size           int64
		pinned         bool
	}
	for seed := range uint64(100) {
		const capacity = 100
		rng := rand.New(rand.NewPCG(seed, 0))
		lru := store.NewFairLRU[string](capacity)
		var model []item // least recently used first
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
			e := lru.Get(store.KeyOf(key))
			i := slices.IndexFunc(model, func(one item) bool { return one.key == key })
			if (e == nil) != (i < 0) || e != nil && (e.Value != key) {
				t.Fatalf("seed %d: Get(%s) returned %+v, model %+v", seed, key, e, model)
			}
			switch updated := (item{key, fmt.Sprint("ns", rng.IntN(4)), rng.Int64N(30), rng.IntN(3) == 0}); {
			case e != nil && rng.IntN(6) == 0:
				lru.Remove(e)
				model = slices.Delete(model, i, i+1)
			case e != nil:
				updated.namespace = model[i].namespace
				lru.Update(e, updated.size, updated.pinned)
				model = append(slices.Delete(model, i, i+1), updated)
			default:
				lru.Update(lru.Add(store.KeyOf(key), updated.namespace, key), updated.size, updated.pinned)
				model = append(model, updated)
			}
			namespace, more := fmt.Sprint("ns", rng.IntN(5)), rng.Int64N(40)
			own := sum(func(one item) bool { return one.pinned && one.namespace == namespace })
			pinned := sum(func(one item) bool { return one.pinned })
			if canPin := lru.CanPin(namespace, more); canPin != (own+more <= capacity-pinned) {
				t.Fatalf("seed %d: CanPin(%s, %d) returned %t, model %+v", seed, namespace, more, canPin, model)
			}
			for lru.Size() > capacity {
				e := lru.Evict(0)
				if e == nil {
					break
				}
				i := slices.IndexFunc(model, func(one item) bool { return one.key == e.Value })
				victim := model[i]
				sizeOf := func(namespace string) int64 { return sum(func(one item) bool { return one.namespace == namespace }) }
				for j, other := range model {
					switch {
					case other.pinned:
					case sizeOf(other.namespace) > sizeOf(victim.namespace), other.namespace == victim.namespace && j < i, victim.pinned:
						t.Fatalf("seed %d: evicted %+v of %+v, want one like %+v", seed, victim, model, other)
					}
				}
				model = slices.Delete(model, i, i+1)
			}
			if lru.Evict(0) != nil || lru.Len() != len(model) || lru.Size() != sum(all) {
				t.Fatalf("seed %d: %d entries of size %d, want %+v", seed, lru.Len(), lru.Size(), model)
			}
			if left := sum(func(one item) bool { return !one.pinned }); lru.Size() > capacity && left > 0 {
				t.Fatalf("seed %d: over capacity although entries of size %d could be evicted", seed, left)
			}
		}
	}
}
