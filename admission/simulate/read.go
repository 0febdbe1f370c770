package simulate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxLine is the longest line that is read, in bytes. It has room for a
	// request and its response, each as large as the API server takes.
	maxLine = 8 << 20
	// peek is how much of an input is looked at to tell a list from lines.
	peek = 64 << 10
)

// Read reads sources, each an API server's audit log, a watch or Events as JSON
// lines, or a list of Events; compressed by gzip or not. Memory does not grow
// with Events, but with their number, by 16 bytes each, until it returns. Lines
// that are broken are counted; an error means that a source could not be read at all.
func Read(ctx context.Context, sources []Source, o ReadOptions) (*Trace, error) {
	t, err := newTrace(o)
	if err != nil {
		return nil, err
	}
	for i, s := range sources {
		t.Input.Files = append(t.Input.Files, s.Name)
		r := &reader{trace: t, exempt: o.Exempt, file: i, name: s.Name}
		if err := r.readAll(ctx, s); err != nil {
			t.Close()
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	if err := t.sort(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// reader reads one source into a trace.
type reader struct {
	trace  *Trace
	exempt []string
	file   int
	name   string
}

func (r *reader) readAll(ctx context.Context, s Source) error {
	raw, err := s.Open()
	if err != nil {
		return err
	}
	defer raw.Close()
	in := bufio.NewReaderSize(raw, peek)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) { // shorter ones are no gzip
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		in = bufio.NewReaderSize(unzipped, peek)
	}
	head, err := in.Peek(peek)
	if err != nil && !errors.Is(err, io.EOF) {
		if len(head) == 0 {
			return err
		}
	}
	if isList(head) {
		return r.readList(ctx, in)
	}
	return r.readLines(ctx, in)
}

// isList tells whether what begins so is one object with items.
func isList(head []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(head), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '{' {
		return false
	}
	for {
		name, err := d.ReadToken()
		if err != nil || name.Kind() != '"' {
			return false
		}
		if name.String() == "items" {
			return d.PeekKind() == '['
		}
		if err := d.SkipValue(); err != nil {
			return false
		}
	}
}
