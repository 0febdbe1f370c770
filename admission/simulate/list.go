package simulate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// readList reads the items of a list, one at a time. Where it is no JSON any more, the rest counts as one
// broken line.
func (r *reader) readList(ctx context.Context, in io.Reader) error {
	lines := &lineCounter{in: in}
	d, p := newDecoder(lines), parser{reader: r}
	for item, err := range items(d) {
		if lines.err != nil {
			return lines.err
		}
		var one parsed
		if err == nil {
			p.records, p.write = p.records[:0], write{}
			one = p.finish(lines.at(d.InputOffset()-int64(len(item))), p.write.found(stored, item))
		} else {
			at := d.InputOffset()
			if wrong, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
				at = wrong.ByteOffset
			}
			one = parsed{line: lines.at(at), err: fmt.Errorf("the rest of the list is not read: %w", err)}
		}
		if err := cmp.Or(r.trace.add(r.file, &one), ctx.Err()); err != nil {
			return err
		}
	}
	return lines.err
}

// items are those of a list. After an error there are no more, as nothing says where the next one begins.
func items(d *jsontext.Decoder) iter.Seq2[jsontext.Value, error] {
	return func(yield func(jsontext.Value, error) bool) {
		_, err := d.ReadToken() // {
		for err == nil {
			var found bool
			if found, err = nextItems(d); !found {
				break
			}
			for d.PeekKind() != ']' {
				item, err := d.ReadValue()
				if !yield(item, err) || err != nil {
					return
				}
			}
			_, err = d.ReadToken() // ]
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// nextItems goes into the next array "items" of an object, or to the end of the object if there is none.
func nextItems(d *jsontext.Decoder) (found bool, err error) {
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return false, err
		}
		if name.String() == "items" && d.PeekKind() == '[' {
			_, err := d.ReadToken()
			return err == nil, err
		}
		if err := d.SkipValue(); err != nil {
			return false, err
		}
	}
	_, err = d.ReadToken() // }
	return false, err
}

// isList reports whether an input with this beginning is one object with items.
func isList(head []byte) bool {
	d := newDecoder(bytes.NewReader(head))
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '{' {
		return false
	}
	found, _ := nextItems(d) // an error says that it is none
	return found
}

func newDecoder(in io.Reader) *jsontext.Decoder {
	return jsontext.NewDecoder(in, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// lineCounter finds the line of an offset in in.
type lineCounter struct {
	in   io.Reader
	read int64
	ends []int64 // offsets of the line ends that at has not passed
	line int64   // how many line ends at has passed
	err  error   // of in, unless it has ended
}

func (c *lineCounter) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	for i, char := range b[:n] {
		if char == '\n' {
			c.ends = append(c.ends, c.read+int64(i))
		}
	}
	c.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = fmt.Errorf("line %d: %w", c.line+int64(len(c.ends))+1, err)
	}
	return n, err
}

// at is the line of an offset, from 1. Offsets must not go down.
func (c *lineCounter) at(offset int64) int64 {
	passed, _ := slices.BinarySearch(c.ends, offset)
	c.line += int64(passed)
	c.ends = slices.Delete(c.ends, 0, passed)
	return c.line + 1
}
