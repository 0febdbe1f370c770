package busiest

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

// sketch finds the busiest keys among any number in bounded memory: Space-Saving (Metwally,
// Agrawal, El Abbadi 2005). At its bound a newcomer takes the place and the weight of the
// lightest. Among n writes, one who made more than n/places of them has a place at the end,
// and misses n/places at most.
type sketch[K comparable] struct {
	mu       sync.Mutex // not taken by its methods: an owner may guard more with it
	places   int
	detached func(K) K // a key in memory of its own
	total    Counts
	index    map[uint64]int32 // the place, by the hash of a key, which nobody can make collide
	rows     []row[K]
	// weights are those of rows, with those of their forerunners. They are apart so that the
	// lightest is found in few cache lines.
	weights []int64
	lost    int64    // the weight of the key that lost its place last: nobody without a place had more
	_       [64]byte // the next lock is in another cache line
}

type row[K comparable] struct {
	hash uint64
	key  K
	Counts
}

func newSketch[K comparable](places int, detached func(K) K) *sketch[K] {
	return &sketch[K]{places: places, detached: detached, index: map[uint64]int32{}}
}

// count counts one write of k. It returns who lost its place to k, if anybody did.
func (s *sketch[K]) count(seed maphash.Seed, k K, one Counts) (left K, ok bool) {
	hash := maphash.Comparable(seed, k)
	s.total = s.total.Add(one)
	i, known := s.index[hash]
	if !known {
		if i, ok = s.place(); ok {
			left = s.rows[i].key
			delete(s.index, s.rows[i].hash)
		}
		s.index[hash] = i
		s.rows[i] = row[K]{hash: hash, key: s.detached(k)}
	}
	s.rows[i].Counts = s.rows[i].Add(one)
	s.weights[i]++
	return left, ok
}

// place is a new place, or that of the lightest, which is taken.
func (s *sketch[K]) place() (i int32, taken bool) {
	if n := len(s.rows); n < s.places {
		s.rows, s.weights = append(s.rows, row[K]{}), append(s.weights, 0)
		return int32(n), false
	}
	lightest := 0
	for i, w := range s.weights {
		if w < s.weights[lightest] {
			lightest = i
		}
	}
	s.lost = s.weights[lightest]
	return int32(lightest), true
}

// key is what a row of a Ranking is found by: parts of its name, empty ones at the end.
type key [3]string

// detached is k in memory of its own.
func (k key) detached() key {
	detach(&k[0], &k[1], &k[2])
	return k
}

// detach gives texts memory of their own, together: they may be parts of a long request.
func detach(texts ...*string) {
	parts := make([]string, 0, 7)
	for _, text := range texts {
		parts = append(parts, *text)
	}
	rest := strings.Join(parts, "")
	for _, text := range texts {
		*text, rest = rest[:len(*text)], rest[len(*text):]
	}
}

// countBy counts one write of k, of which it keeps no part.
func countBy(s *sketch[key], seed maphash.Seed, k key, one Counts) {
	for i := range k {
		k[i] = clip(k[i])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(seed, k, one)
}

// ranking is what s has counted. name writes a key.
func ranking(s *sketch[key], name func(key) string) Ranking {
	s.mu.Lock()
	r := Ranking{Total: s.total, Missing: s.lost}
	rows, weights := slices.Clone(s.rows), slices.Clone(s.weights)
	s.mu.Unlock()
	r.Rows = make([]Row, len(rows))
	for i, one := range rows {
		r.Rows[i] = Row{Name: name(one.key), Counts: one.Counts, Missing: weights[i] - one.Matched()}
	}
	r.sort()
	return r
}
