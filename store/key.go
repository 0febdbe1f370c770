package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Key names a piece of state. It is the first half of a SHA-256 over parts that
// each carry their length, so that no two different lists of parts share a key
// by concatenation, no key grows with its input, and no client can search for
// a collision in useful time. The zero Key names nothing.
type Key [16]byte

// IsZero tells whether k names nothing.
func (k Key) IsZero() bool { return k == Key{} }

// String is k in hexadecimal, 32 characters, safe in names and logs.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Hasher builds Keys part by part and can be used again after Sum. The zero
// value is ready. It is for one goroutine at a time.
type Hasher struct {
	buf []byte
}

// hasherBytes is room for the parts of most Events, in bytes.
const hasherBytes = 512

// Add appends one part. It returns h, so that calls chain.
func (h *Hasher) Add(parts ...string) *Hasher {
	if h.buf == nil {
		h.buf = make([]byte, 0, hasherBytes)
	}
	for _, part := range parts {
		h.buf = binary.AppendUvarint(h.buf, uint64(len(part)))
		h.buf = append(h.buf, part...)
	}
	return h
}

// AddKey appends another Key as a part.
func (h *Hasher) AddKey(k Key) *Hasher {
	h.buf = binary.AppendUvarint(h.buf, uint64(len(k)))
	h.buf = append(h.buf, k[:]...)
	return h
}

// Sum is the Key of the parts added since the last Sum.
func (h *Hasher) Sum() Key {
	sum := sha256.Sum256(h.buf)
	h.buf = h.buf[:0]
	return Key(sum[:len(Key{})])
}

// KeyOf is the Key of parts.
func KeyOf(parts ...string) Key {
	var h Hasher
	return h.Add(parts...).Sum()
}
