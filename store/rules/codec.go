package rules

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/eventquota/eventquota/store"
)

// format is the first byte of an encoded Group. A value of another format is a newer replica's and
// must not be overwritten.
const format = 1

// ErrFormat says that a value was not written by this format.
var ErrFormat = errors.New("register of a format that this version does not know")

// MaxBytes is the largest Size of a Group, which bounds the work of a step.
const MaxBytes = 64 << 10

// Append appends g, encoded, to b: CBOR as the tags of its types say. The library that reads these tags takes ten times
// as long, and remains to read what was encoded otherwise.
func (g *Group) Append(b []byte) []byte {
	c := coder{b: append(b, format)}
	g.code(&c)
	return c.b
}

// Marshal encodes g as Append does. The error is nil.
func (g *Group) Marshal() ([]byte, error) { return g.Append(nil), nil }

//nolint:gochecknoglobals // never changes, and takes long to make
var decoder, _ = cbor.DecOptions{
	MaxArrayElements: maxElements, MaxMapPairs: 64, MaxNestedLevels: 8,
	IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
	UTF8: cbor.UTF8DecodeInvalid, // texts come from clients and must not make a register unreadable
}.DecMode() // it fails for other options only

// Unmarshal decodes what Append has encoded. The error is ErrFormat for what a newer version may have written.
func Unmarshal(b []byte) (*Group, error) {
	switch {
	case len(b) == 0 || b[0] != format:
		return nil, ErrFormat
	case len(b) > 2*MaxBytes:
		return nil, fmt.Errorf("register of %d bytes: must have at most %d", len(b), MaxBytes)
	}
	var g Group
	c := coder{b: b[1:], decodes: true}
	if g.code(&c); !c.failed && len(c.b) == 0 {
		return &g, nil
	}
	g = Group{}
	if err := decoder.Unmarshal(b[1:], &g); err != nil {
		return nil, fmt.Errorf("decode register: %w", err)
	}
	return &g, nil
}

// coder encodes or decodes the fields that it is shown, in the same order. When it decodes, it fails at whatever Append
// does not write: then another decoder says what that is.
type coder struct {
	b       []byte // what is encoded, or what is left to decode
	decodes bool
	failed  bool
	fields  uint64 // of the object: those that are encoded, or those that are left
}

// Major types of CBOR.
const (
	unsigned = iota << 5
	negative
	bytesOf
	textOf
	arrayOf
	mapOf
	_
	simple

	isTrue = simple | 21
	// lengthBits are those of the first byte that say how many follow, or are a number below inFirst.
	lengthBits, inFirst = 0x1f, 24

	maxElements = 1024 // of a list
)

// head encodes or decodes a number of a major type.
func (c *coder) head(major byte, n uint64) uint64 {
	if c.decodes {
		return c.readHead(major)
	}
	switch {
	case n < inFirst:
		c.b = append(c.b, major|byte(n))
	case n < 1<<8:
		c.b = append(c.b, major|inFirst, byte(n))
	case n < 1<<16:
		c.b = binary.BigEndian.AppendUint16(append(c.b, major|inFirst+1), uint16(n))
	case n < 1<<32:
		c.b = binary.BigEndian.AppendUint32(append(c.b, major|inFirst+2), uint32(n))
	default:
		c.b = binary.BigEndian.AppendUint64(append(c.b, major|inFirst+3), n)
	}
	return n
}

func (c *coder) readHead(major byte) uint64 {
	if len(c.b) == 0 || c.b[0]&^lengthBits != major {
		c.failed = true
		return 0
	}
	short := c.b[0] & lengthBits
	c.b = c.b[1:]
	if short < inFirst {
		return uint64(short)
	}
	size := 1 << (short - inFirst)
	if size > 8 || len(c.b) < size {
		c.failed = true
		return 0
	}
	var n uint64
	for _, digit := range c.b[:size] {
		n = n<<8 | uint64(digit)
	}
	c.b = c.b[size:]
	return n
}

// object is a struct whose fields are encoded or decoded.
type object struct {
	at    int    // where it begins
	outer uint64 // the fields of the one around it
}

// open begins a struct.
func (c *coder) open() object {
	o := object{len(c.b), c.fields}
	c.fields = c.head(mapOf, 0)
	return o
}

// close ends the struct that was opened last.
func (c *coder) close(o object) {
	switch {
	case c.decodes:
		c.failed = c.failed || c.fields != 0
	case c.fields < inFirst:
		c.b[o.at] |= byte(c.fields)
	default: // there are less than 256
		c.b = slices.Insert(c.b, o.at+1, byte(c.fields))
		c.b[o.at] |= inFirst
	}
	c.fields = o.outer
}

// field begins a field, and reports whether its value follows: unless it is omitted when it is encoded, and if it is the
// next one when it is decoded.
func (c *coder) field(key uint64, omitted bool) bool {
	if !c.decodes {
		if !omitted {
			c.fields++
			c.head(unsigned, key)
		}
		return !omitted
	}
	var first [2]byte // there are no keys above 255
	n := 1
	if first[0] = byte(key); key >= inFirst {
		first, n = [2]byte{inFirst, byte(key)}, 2
	}
	if c.failed || c.fields == 0 || len(c.b) < n || string(c.b[:n]) != string(first[:n]) {
		return false
	}
	c.b = c.b[n:]
	c.fields--
	return true
}

// Fields of each type are left out where they are empty, unless they are required.

func (c *coder) int64(key uint64, v *int64) { c.signed(key, v, *v == 0) }

func (c *coder) requiredInt64(key uint64, v *int64) { c.signed(key, v, false) }

func (c *coder) int(key uint64, v *int) {
	n := int64(*v)
	c.int64(key, &n)
	*v = int(n)
}

func (c *coder) signed(key uint64, v *int64, omitted bool) {
	switch {
	case !c.field(key, omitted):
	case c.decodes && len(c.b) > 0 && c.b[0]&^lengthBits == negative:
		*v = ^c.positive(negative)
	case c.decodes:
		*v = c.positive(unsigned)
	case *v < 0:
		c.head(negative, uint64(^*v))
	default:
		c.head(unsigned, uint64(*v))
	}
}

// positive decodes a number that an int64 has.
func (c *coder) positive(major byte) int64 {
	n := int64(c.head(major, 0)) //nolint:gosec // it is looked at
	c.failed = c.failed || n < 0
	return n
}

func (c *coder) uint64(key uint64, v *uint64) { c.optionalUint64(key, v, *v == 0) }

func (c *coder) requiredUint64(key uint64, v *uint64) { c.optionalUint64(key, v, false) }

func (c *coder) optionalUint64(key uint64, v *uint64, omitted bool) {
	if c.field(key, omitted) {
		*v = c.head(unsigned, *v)
	}
}

func (c *coder) bool(key uint64, v *bool) {
	switch {
	case !c.field(key, !*v):
	case !c.decodes:
		c.b = append(c.b, isTrue)
	case len(c.b) == 0 || c.b[0] != isTrue:
		c.failed = true
	default:
		c.b, *v = c.b[1:], true
	}
}

func (c *coder) string(key uint64, v *string) {
	if c.field(key, *v == "") {
		c.text(v)
	}
}

func (c *coder) requiredString(key uint64, v *string) {
	if c.field(key, false) {
		c.text(v)
	}
}

func (c *coder) text(v *string) {
	n := c.head(textOf, uint64(len(*v)))
	switch {
	case !c.decodes:
		c.b = append(c.b, *v...)
	case c.failed || n > uint64(len(c.b)):
		c.failed = true
	default:
		*v, c.b = string(c.b[:n]), c.b[n:]
	}
}

func (c *coder) key(key uint64, v *store.Key) {
	if c.field(key, v.IsZero()) {
		c.bytes(v)
	}
}

func (c *coder) requiredKey(key uint64, v *store.Key) {
	if c.field(key, false) {
		c.bytes(v)
	}
}

func (c *coder) bytes(v *store.Key) {
	n := c.head(bytesOf, uint64(len(v)))
	switch {
	case !c.decodes:
		c.b = append(c.b, v[:]...)
	case c.failed || n != uint64(len(v)) || len(c.b) < len(v):
		c.failed = true
	default:
		c.b = c.b[copy(v[:], c.b):]
	}
}

// list begins a field with a list of n elements. It returns how many follow.
func (c *coder) list(key uint64, n int) int {
	if !c.field(key, n == 0) {
		return 0
	}
	follow := c.head(arrayOf, uint64(n))
	if c.failed || c.decodes && (follow == 0 || follow > maxElements || follow > uint64(len(c.b))) {
		c.failed = true
		return 0
	}
	return int(follow)
}

// elements begins a field with a list: when it is decoded, the elements are made.
func elements[T any](c *coder, key uint64, all *[]T) []T {
	if n := c.list(key, len(*all)); c.decodes && n > 0 {
		*all = make([]T, n)
	}
	return *all
}
