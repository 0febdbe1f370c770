package store_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

func TestBoundsPerNamespace(t *testing.T) {
	for _, test := range []struct {
		bounds             store.Bounds
		namespace          string
		buckets, registers int
	}{
		{store.Bounds{}, "shop", 4096, 16384},
		{store.Bounds{}, "", 4096, 16384},
		{store.Bounds{}, "default", 24096, 36384},
		{store.Bounds{}, "kube-system", 24096, 36384},
		{store.Bounds{Buckets: 1, Registers: 2}, "shop", 1, 2},
		{store.Bounds{Buckets: 1, Registers: 2, SystemExtra: 3}, "default", 4, 5},
	} {
		if b, r := test.bounds.MaxBuckets(test.namespace), test.bounds.MaxRegisters(test.namespace); b != test.buckets || r != test.registers {
			t.Errorf("%+v, namespace %q: %d buckets and %d registers, want %d and %d", test.bounds, test.namespace, b, r, test.buckets, test.registers)
		}
	}
}

// TestBoundedSetMatchesModel compares BoundedSet, and the live entries of a FairLRU, with maps from keys to their expiry.
func TestBoundedSetMatchesModel(t *testing.T) {
	const bound = 8
	namespaces := []string{"a", "b"}
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		set := store.NewBoundedSet(func(string) int { return bound })
		lru := store.NewFairLRU[int](1 << 40)
		now, model := time.UnixMicro(1), map[string]map[store.Key]time.Time{"a": {}, "b": {}}
		for range 500 {
			now = now.Add(time.Duration(rng.IntN(3)) * time.Microsecond)
			namespace := namespaces[rng.IntN(2)]
			key, live := store.KeyOf(namespace, fmt.Sprint(rng.IntN(20))), model[namespace]
			maps.DeleteFunc(live, func(_ store.Key, until time.Time) bool { return !until.After(now) })
			if got := lru.Live(now, namespace); got != len(live) {
				t.Fatalf("seed %d: %d live entries, want %d", seed, got, len(live))
			}
			_, known := live[key]
			canHold := set.CanHold(now, namespace, key)
			if want := known || len(live) < bound; canHold != want {
				t.Fatalf("seed %d: CanHold returned %t, want %t", seed, canHold, want)
			}
			e := lru.Get(key)
			if rng.IntN(5) == 0 {
				set.Remove(namespace, key)
				if delete(live, key); e != nil {
					lru.Remove(e)
				}
				continue
			}
			if !canHold {
				continue
			}
			until := now.Add(time.Duration(rng.IntN(20)) * time.Microsecond)
			if live[key] = until; e == nil {
				e = lru.Add(key, namespace, 0)
			}
			set.Put(namespace, key, until)
			lru.SetExpiry(e, until)
		}
	}
}
