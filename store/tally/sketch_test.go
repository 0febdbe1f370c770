package tally

import (
	"math/rand/v2"
	"testing"
)

func TestASketchIsOffByNoMoreThanItSays(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		bound, many := 1+rng.IntN(20), 1+rng.IntN(200)
		var s sketch[int]
		merged, dropped, n := map[int]int64{}, map[int]int64{}, int64(0)
		for range 3000 {
			key, m, d := min(int(rng.ExpFloat64()*20), many), rng.Int64N(3), rng.Int64N(3)
			if seed%4 == 0 {
				key = rng.IntN(many) // none is frequent
			}
			i, lightest := s.find(key)
			if i < 0 {
				i = s.take(lightest, key, len(s) < bound)
			}
			s[i].count(m, d)
			merged[key], dropped[key], n = merged[key]+m, dropped[key]+d, n+m+d
		}
		if len(s) > bound {
			t.Fatalf("%d places, want %d", len(s), bound)
		}
		for key := range merged {
			really := merged[key] + dropped[key]
			i, _ := s.find(key)
			switch {
			case i < 0 && really > n/int64(bound):
				t.Errorf("seed %d: %d of %d refusals are missing", seed, really, n)
			case i < 0:
			case s[i].merged > merged[key] || s[i].dropped > dropped[key]:
				t.Errorf("seed %d: %+v, want at most %d and %d", seed, s[i], merged[key], dropped[key])
			case s[i].merged+s[i].dropped < really-n/int64(bound) || s[i].weight < really:
				t.Errorf("seed %d: %+v, want %d less %d at the most", seed, s[i], really, n/int64(bound))
			}
		}
	}
}
