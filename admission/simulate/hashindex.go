package simulate

import (
	"math"
	"math/bits"
)

const (
	// parts is the number of tables. They grow one at a time, so that growing needs little memory.
	parts = 64
	// minSlots is the initial number of slots in a table.
	minSlots = 64
)

// removedAt is the offset in a removed slot.
const removedAt = math.MinInt64

// hashIndex maps hashes to locations. It takes about 30 bytes per hash, half as much as a Go map.
type hashIndex struct{ parts [parts]hashTable }

// hashTable is a hash table with linear probing. The hash of an empty slot is 0.
type hashTable struct {
	slots []slot
	used  int
}

type slot struct {
	hash uint64
	location
}

// of returns the table of a hash and its unique, nonzero key there. Setting the last bit is safe: it is the same for a whole table.
func (n *hashIndex) of(hash uint64) (*hashTable, uint64) { return &n.parts[hash%parts], hash | 1 }

// get returns the location of a hash.
func (n *hashIndex) get(hash uint64) (k location, known bool) {
	s, key := n.of(hash)
	if s.used == 0 {
		return location{}, false
	}
	found := s.find(key)
	return found.location, found.hash != 0 && found.offset != removedAt
}

// set stores the location of a hash. If the table is full, set removes expired locations first.
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

// remove removes a hash.
func (n *hashIndex) remove(hash uint64) {
	s, key := n.of(hash)
	if s.used > 0 {
		if found := s.find(key); found.hash != 0 {
			found.offset = removedAt
		}
	}
}

// find returns the slot of a hash, or the empty slot for it.
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

// grow removes expired locations and resizes the table to 1.5 slots per remaining location.
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
