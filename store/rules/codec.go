package rules

import (
	"errors"
	"fmt"
)

// format is the first byte of an encoded Group. A value of another format is a newer replica's and
// must not be overwritten.
const format = 1

// ErrFormat says that a value was not written by this format.
var ErrFormat = errors.New("register of a format that this version does not know")

// MaxBytes is the largest Size of a Group, which bounds the work of a step.
const MaxBytes = 64 << 10

// Append encodes g, and appends that to b.
func (g *Group) Append(b []byte) []byte {
	b, err := g.MarshalMsg(append(b, format))
	if err != nil {
		panic(err) // of types that no Group has
	}
	return b
}

// Unmarshal decodes what Append has encoded. The error is ErrFormat for what a newer version may have written.
func Unmarshal(b []byte) (*Group, error) {
	switch {
	case len(b) == 0 || b[0] != format:
		return nil, ErrFormat
	case len(b) > 2*MaxBytes:
		return nil, fmt.Errorf("register of %d bytes: must have at most %d", len(b), MaxBytes)
	}
	var g Group
	rest, err := g.UnmarshalMsg(b[1:])
	if err != nil {
		return nil, fmt.Errorf("decode register: %w", err)
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("decode register: %d bytes after its end", len(rest))
	}
	return &g, nil
}
