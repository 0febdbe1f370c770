package engine

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/eventquota/eventquota/store"
)

const (
	hashBytes = 8
	// exactBytes is less than registers, so that the length tells the two forms apart.
	exactBytes = 63 * hashBytes
	// registers is two to the power of indexBits.
	registers, indexBits = 512, 9
	// maxRank is the highest value of a register: one more than the number of hash bits besides the index.
	maxRank = 64 - indexBits + 1
)

// newDistinct returns a Distinct of one object.
func newDistinct(o *store.Object) Distinct {
	key := store.KeyOf(o.Kind, o.Namespace, o.Name, o.UID)
	return Distinct(bytes.Clone(key[:hashBytes]))
}

// Merge adds the things that o has counted.
func (d *Distinct) Merge(o Distinct) {
	if len(o) != registers {
		for hash := range slices.Chunk(o, hashBytes) {
			d.add(hash)
		}
		return
	}
	if len(*d) != registers {
		d.toRegisters()
	}
	for i, rank := range o {
		(*d)[i] = max((*d)[i], rank)
	}
}

func (d *Distinct) add(hash []byte) {
	if len(*d) == registers {
		d.setRank(binary.BigEndian.Uint64(hash))
		return
	}
	n := len(*d) / hashBytes
	i := 0
	for j := n; i < j; {
		if middle := (i + j) / 2; bytes.Compare((*d)[middle*hashBytes:(middle+1)*hashBytes], hash) < 0 {
			i = middle + 1
		} else {
			j = middle
		}
	}
	switch {
	case i < n && bytes.Equal((*d)[i*hashBytes:(i+1)*hashBytes], hash):
	case len(*d) < exactBytes:
		*d = slices.Insert(*d, i*hashBytes, hash...)
	default:
		d.toRegisters()
		d.setRank(binary.BigEndian.Uint64(hash))
	}
}

// toRegisters changes the form from hashes to registers.
func (d *Distinct) toRegisters() {
	hashes := *d
	*d = make(Distinct, registers)
	for hash := range slices.Chunk(hashes, hashBytes) {
		d.setRank(binary.BigEndian.Uint64(hash))
	}
}

func (d *Distinct) setRank(hash uint64) {
	rank := byte(bits.LeadingZeros64(hash<<indexBits|1<<(indexBits-1)) + 1)
	i := hash >> (64 - indexBits)
	(*d)[i] = max((*d)[i], rank)
}

// Count returns the number of distinct things, and whether it is exact.
func (d *Distinct) Count() (n int64, exact bool) {
	if len(*d) != registers {
		return int64(len(*d) / hashBytes), true
	}
	var of [maxRank + 1]float64 // how many registers have each value
	for _, rank := range *d {
		of[min(rank, maxRank)]++
	}
	z := registers * tau(1-of[maxRank]/registers)
	for rank := maxRank - 1; rank >= 1; rank-- {
		z = (z + of[rank]) / 2
	}
	z += registers * sigma(of[0]/registers)
	estimate := math.Round(registers * registers / (2 * math.Ln2 * z))
	if estimate >= math.MaxInt64 { // a client has searched for such hashes
		return math.MaxInt64, false
	}
	return int64(estimate), false
}

// sigma and tau belong to Ertl's estimator, which needs no corrections for small or large numbers. At least one register is not 0.
func sigma(x float64) float64 {
	z, power, y := x, x, 1.0
	for before := -1.0; z != before; y *= 2 {
		power *= power
		before = z
		z += power * y
	}
	return z
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	z, root, y := 1-x, x, 1.0
	for before := -1.0; z != before; {
		root = math.Sqrt(root)
		before = z
		y /= 2
		z -= (1 - root) * (1 - root) * y
	}
	return z / 3
}
