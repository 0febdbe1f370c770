package simulate

import (
	"math/rand/v2"
	"testing"
)

func TestHashIndexMatchesMap(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var n hashIndex
		model, now := map[uint64]location{}, int64(0)
		expired := func(k location) bool { return now-k.at >= 3000 }
		hashes := make([]uint64, 1+rng.IntN(5000))
		for i := range hashes {
			if hashes[i] = rng.Uint64(); seed%2 == 0 {
				hashes[i] = (255-hashes[i]%7)<<56 | uint64(i)*parts + 1 // which are in each other's way
			}
		}
		for range 20_000 {
			now++
			hash := hashes[rng.IntN(len(hashes))]
			switch rng.IntN(4) {
			case 0:
				n.remove(hash)
				delete(model, hash)
			case 1:
				got, known := n.get(hash)
				want, wanted := model[hash]
				if wanted && expired(want) {
					continue // it may be there or not
				}
				if known != wanted || got != want && wanted {
					t.Fatalf("seed %d: %x is %v, %t; want %v, %t", seed, hash, got, known, want, wanted)
				}
			default:
				model[hash] = location{now, rng.Int64() - 1<<62}
				n.set(hash, model[hash], expired)
			}
		}
	}
}
