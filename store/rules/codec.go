package rules

import (
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// format is the first byte of an encoded Group. A value of another one is a newer replica's, and is
// not to be overwritten.
const format = 1

// ErrFormat says that a value was not written by this format.
var ErrFormat = errors.New("register of a format that this version does not know")

// MaxBytes is the longest encoded Group.
const MaxBytes = 32 << 10

var (
	encoder = must(cbor.EncOptions{Sort: cbor.SortNone}.EncMode()) //nolint:gochecknoglobals // never changes, and takes long to make
	decoder = must(cbor.DecOptions{                                //nolint:gochecknoglobals // as above
		MaxArrayElements: 1024, MaxMapPairs: 64, MaxNestedLevels: 8,
		IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		UTF8: cbor.UTF8DecodeInvalid, // texts are a client's, and not to make a register unreadable
	}.DecMode())
)

func must[T any](t T, err error) T {
	if err != nil {
		panic(err) // the options above are constants
	}
	return t
}

// Marshal appends the encoded form of g.
func (g *Group) Marshal(b []byte) ([]byte, error) {
	encoded, err := encoder.Marshal(g)
	if err != nil {
		return b, fmt.Errorf("encode register: %w", err)
	}
	return append(append(b, format), encoded...), nil
}

// Unmarshal decodes what Marshal has encoded. What is no such thing is an error, ErrFormat for one
// that a newer version may have written.
func Unmarshal(b []byte) (*Group, error) {
	switch {
	case len(b) == 0 || b[0] != format:
		return nil, ErrFormat
	case len(b) > 2*MaxBytes:
		return nil, fmt.Errorf("register of %d bytes: must have at most %d", len(b), MaxBytes)
	}
	var g Group
	if err := decoder.Unmarshal(b[1:], &g); err != nil {
		return nil, fmt.Errorf("decode register: %w", err)
	}
	return &g, nil
}
