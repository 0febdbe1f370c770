package rules

import (
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// format is the first byte of an encoded Group. A value of another format is a newer replica's and
// must not be overwritten.
const format = 1

// ErrFormat says that a value was not written by this format.
var ErrFormat = errors.New("register of a format that this version does not know")

// MaxBytes is the largest Size of a Group, which bounds the work of a step.
const MaxBytes = 64 << 10

//nolint:gochecknoglobals // never changes, and takes long to make
var decoder, _ = cbor.DecOptions{
	MaxArrayElements: 1024, MaxMapPairs: 64, MaxNestedLevels: 8,
	IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
	UTF8: cbor.UTF8DecodeInvalid, // texts come from clients and must not make a register unreadable
}.DecMode() // it fails for other options only

// Marshal encodes g.
func (g *Group) Marshal() ([]byte, error) {
	encoded, err := cbor.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("encode register: %w", err)
	}
	return append([]byte{format}, encoded...), nil
}

// Unmarshal decodes what Marshal has encoded. The error is ErrFormat for what a newer version may have written.
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
