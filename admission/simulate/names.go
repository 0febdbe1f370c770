package simulate

import (
	"math"
	"math/bits"
)

const (
	// parts are how many tables a names has: one grows at a time, so little is there twice.
	parts = 64
	// leastSlots is how many slots a table has at first.
	leastSlots = 64
)

// gone is where a removed Event is.
const gone = math.MinInt64

// names is a map of hashes, which takes some 30 bytes of each: half of what a map of the language takes.
type names struct{ parts [parts]slots }

// slots are a hash table. Those of one hash, and of others that are in its way, follow each other. An empty one has no hash.
type slots struct {
	slots []slot
	used  int
}

type slot struct {
	hash uint64
	kept
}

// of returns the table of a hash, and the hash as it is there: never 0, and no other's, as all in a table have the same last bit.
func (n *names) of(hash uint64) (*slots, uint64) { return &n.parts[hash%parts], hash | 1 }

// get returns what is kept of a hash.
func (n *names) get(hash uint64) (k kept, known bool) {
	s, key := n.of(hash)
	if s.used == 0 {
		return kept{}, false
	}
	found := s.find(key)
	return found.kept, found.hash != 0 && found.offset != gone
}

// set keeps k of a hash. Where a table is full, it first removes what is expired.
func (n *names) set(hash uint64, k kept, expired func(kept) bool) {
	s, key := n.of(hash)
	if s.used >= len(s.slots)-len(s.slots)/8 {
		s.grow(expired)
	}
	to := s.find(key)
	if to.hash == 0 {
		s.used++
	}
	*to = slot{key, k}
}

// remove forgets a hash.
func (n *names) remove(hash uint64) {
	s, key := n.of(hash)
	if s.used > 0 {
		if found := s.find(key); found.hash != 0 {
			found.offset = gone
		}
	}
}

// find returns the slot of a hash, or the empty one where it would be.
func (s *slots) find(hash uint64) *slot {
	at, _ := bits.Mul64(hash, uint64(len(s.slots)))
	for {
		if found := &s.slots[at]; found.hash == hash || found.hash == 0 {
			return found
		}
		if at++; at == uint64(len(s.slots)) {
			at = 0
		}
	}
}

// grow makes a table that has half as many slots again as what is left takes.
func (s *slots) grow(expired func(kept) bool) {
	stays := func(one *slot) bool { return one.hash != 0 && one.offset != gone && !expired(one.kept) }
	left := 0
	for i := range s.slots {
		if stays(&s.slots[i]) {
			left++
		}
	}
	larger := slots{slots: make([]slot, max(leastSlots, left*3/2)), used: left}
	for i := range s.slots {
		if one := &s.slots[i]; stays(one) {
			*larger.find(one.hash) = *one
		}
	}
	*s = larger
}
