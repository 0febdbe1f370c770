package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// readList reads the items of a list, one at a time. Where the list is no JSON
// any more, nothing tells where its next item begins: the rest counts as one
// broken line.
func (r *reader) readList(ctx context.Context, in io.Reader) error {
	lines := &lineCounter{in: in}
	d := jsontext.NewDecoder(lines, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	err := r.readItems(ctx, d, lines)
	if lines.err != nil { // not what was read is wrong
		return fmt.Errorf("line %d: %w", lines.at(d.InputOffset()), lines.err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && r.trace.failed == nil {
		at := d.InputOffset()
		if wrong, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			at = wrong.ByteOffset
		}
		r.trace.Input.Entries++
		r.broken(lines.at(at), fmt.Errorf("the rest of the list is not read: %w", err))
		return nil
	}
	return r.trace.failed
}

func (r *reader) readItems(ctx context.Context, d *jsontext.Decoder, lines *lineCounter) error {
	if _, err := d.ReadToken(); err != nil { // {
		return err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if name.String() != "items" || d.PeekKind() != '[' {
			if err := d.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if err := r.readArray(ctx, d, lines); err != nil {
			return err
		}
	}
	_, err := d.ReadToken() // }
	return err
}

func (r *reader) readArray(ctx context.Context, d *jsontext.Decoder, lines *lineCounter) error {
	if _, err := d.ReadToken(); err != nil { // [
		return err
	}
	var p parser
	for d.PeekKind() != ']' {
		item, err := d.ReadValue()
		if err != nil {
			return err
		}
		line := lines.at(d.InputOffset() - int64(len(item)))
		p.out = p.out[:0]
		parsed := p.stored(item)
		if err := errors.Join(r.accept(line, &parsed, p.out), ctx.Err()); err != nil {
			return err
		}
	}
	_, err := d.ReadToken() // ]
	return err
}

// lineCounter knows which line an offset of in is in, of what was read last.
type lineCounter struct {
	in   io.Reader
	read int64
	ends []int64 // offsets of line ends that at has not passed
	line int64   // line ends that it has
	err  error
}

func (c *lineCounter) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	for i, char := range b[:n] {
		if char == '\n' {
			c.ends = append(c.ends, c.read+int64(i))
		}
	}
	c.read += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
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
