package simulate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxLine is the longest line that is read, in bytes. It has room for a
	// request and its response, each as large as the API server takes.
	maxLine = 8 << 20
	// shownBroken is how many broken lines are told one by one.
	shownBroken = 10
	// peek is how much of an input is looked at to tell a list from lines.
	peek = 64 << 10
)

// Source is one input.
type Source struct {
	// Name is how reports call it.
	Name string
	// Open opens it. It is called once.
	Open func() (io.ReadCloser, error)
}

// ReadOptions say how to read.
type ReadOptions struct {
	// Exempt are users whose requests the webhook is not asked about.
	Exempt []string
	// Dir is where temporary files go; empty stands for the system's own. They
	// hold each Event once, and are gone with the Trace.
	Dir string
}

// Broken is a line that cannot be read.
type Broken struct {
	File string `json:"file"`
	// Line counts from 1.
	Line  int64  `json:"line"`
	Error string `json:"error"`
}

// Input says what was read.
type Input struct {
	Files []string `json:"files"`
	// Entries are lines, or elements of a list.
	Entries int64 `json:"entries"`
	// Broken are those that could not be read, and BrokenLines the first 10 of
	// them.
	Broken      int64    `json:"broken"`
	BrokenLines []Broken `json:"brokenLines,omitempty"`
	// Skipped are those that are no Event write, by why.
	Skipped map[string]int64 `json:"skipped,omitempty"`
	// Writes are the requests that the rest stand for, First and Last the times
	// of them.
	Writes int64     `json:"writes"`
	First  time.Time `json:"first,omitzero"`
	Last   time.Time `json:"last,omitzero"`
}

// Read reads sources, each an API server's audit log, a watch or Events as JSON
// lines, or a list of Events; compressed by gzip or not. Memory does not grow
// with Events, but with their number, by 40 bytes each. Lines that are broken
// are counted; an error means that a source could not be read at all.
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

// broken notes a line that cannot be read.
func (r *reader) broken(line int64, err error) {
	in := &r.trace.Input
	in.Broken++
	if len(in.BrokenLines) < shownBroken {
		in.BrokenLines = append(in.BrokenLines, Broken{File: r.name, Line: line, Error: clip(err.Error())})
	}
}

// clip bounds what is said of a line, which may be of any length and hold
// anything.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}

func (r *reader) skip(why string) { r.trace.Input.Skipped[why]++ }
