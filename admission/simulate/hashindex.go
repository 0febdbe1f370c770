package simulate

import (
	"math"
	"math/bits"
)

const (
	// parts are how many tables a names has: one grows at a time, so little is there twice.
	parts = 64
	// minSlots is how many slots a table has at first.
	minSlots = 64
)

// removedAt is where a removed Event is.
const removedAt = math.MinInt64

// hashIndex is a map of hashes, which takes some 30 bytes of each: half of what a map of the language takes.
type hashIndex struct{ parts [parts]hashTable }

// hashTable are a hash table. Those of one hash, and of others that are in its way, follow each other. An empty one has no hash.
type hashTable struct {
	slots []slot
	used  int
}

type slot struct {
	hash uint64
	location
}

// of returns the table of a hash, and the hash as it is there: never 0, and no other's, as all in a table have the same last bit.
func (n *hashIndex) of(hash uint64) (*hashTable, uint64) { return &n.parts[hash%parts], hash | 1 }

// get returns what is kept of a hash.
func (n *hashIndex) get(hash uint64) (k location, known bool) {
	s, key := n.of(hash)
	if s.used == 0 {
		return location{}, false
	}
	found := s.find(key)
	return found.location, found.hash != 0 && found.offset != removedAt
}

// set keeps k of a hash. Where a table is full, it first removes what is expired.
func (n *hashIndex) set(hash uint64, k location, expired func(location) bool) {
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
func (n *hashIndex) remove(hash uint64) {
	s, key := n.of(hash)
	if s.used > 0 {
		if found := s.find(key); found.hash != 0 {
			found.offset = removedAt
		}
	}
}

// find returns the slot of a hash, or the empty one where it would be.
func (s *hashTable) find(hash uint64) *slot {
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
func (s *hashTable) grow(expired func(location) bool) {
	stays := func(one *slot) bool { return one.hash != 0 && one.offset != removedAt && !expired(one.location) }
	left := 0
	for i := range s.slots {
		if stays(&s.slots[i]) {
			left++
		}
	}
	larger := hashTable{slots: make([]slot, max(minSlots, left*3/2)), used: left}
	for i := range s.slots {
		if one := &s.slots[i]; stays(one) {
			*larger.find(one.hash) = *one
		}
	}
	*s = larger
}
