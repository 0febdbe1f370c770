package tally

// sketch finds those that are refused most among any number, in bounded memory:
// Space-Saving (Metwally, Agrawal, El Abbadi 2005). At its bound a newcomer
// takes the place and the weight of the lightest. So among n refusals
//   - whoever has more than n/bound of them is in the sketch at the end, and
//   - merged and dropped, which count from when the place was taken, are never
//     too many, and too few by n/bound at the most.
type sketch[K comparable] []followed[K]

type followed[K comparable] struct {
	key             K
	weight          int64 // with those of its forerunners
	merged, dropped int64
}

// find is the place of key, or -1 and the place of the lightest.
func (s sketch[K]) find(key K) (i, lightest int) {
	for i := range s {
		if s[i].key == key {
			return i, i
		}
		if s[i].weight < s[lightest].weight {
			lightest = i
		}
	}
	return -1, lightest
}

// take gives key the place of the lightest, or when it may grow a place of its
// own, and returns that. A sketch without any place must grow.
func (s *sketch[K]) take(lightest int, key K, grow bool) int {
	if grow {
		*s = append(*s, followed[K]{key: key})
		return len(*s) - 1
	}
	(*s)[lightest] = followed[K]{key: key, weight: (*s)[lightest].weight}
	return lightest
}

// count counts refusals of who has a place.
func (f *followed[K]) count(merged, dropped int64) {
	f.merged, f.dropped = limit(f.merged+merged), limit(f.dropped+dropped)
	f.weight = limit(f.weight + limit(merged+dropped))
}

// maxCount is what a number counts to at the most: the sum of two is exact in
// scripts of Redis, and sums of a few do not overflow.
const maxCount = 1 << 52

func limit(n int64) int64 { return min(max(n, 0), maxCount) }

func (c Counts) limited() Counts { return Counts{limit(c.Admitted), limit(c.Merged), limit(c.Dropped)} }
