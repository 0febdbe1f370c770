package simulate

import (
	"errors"
	"fmt"
	"os"
)

// spoolBuffer is how much of a spool is in memory before it is written, and how
// much a view that goes through all of it reads at a time.
const spoolBuffer = 256 << 10

// spoolGlance is how much a view reads at a time that goes here and there.
const spoolGlance = 4 << 10

// span is where something is in a spool: its offset, at most maxOffset, above
// spanSizeBits of its size.
type span uint64

const (
	spanSizeBits = 24
	maxSpan      = 1<<spanSizeBits - 1
	maxOffset    = 1<<(64-spanSizeBits) - 1 // a terabyte
)

func newSpan(offset int64, size int) span { return span(offset)<<spanSizeBits | span(size) }

func (s span) offset() int64 { return int64(s >> spanSizeBits) }
func (s span) size() int64   { return int64(s & maxSpan) }

var (
	errLargeSpan = errors.New("what is written takes more than 16 MiB")
	errFullSpool = errors.New("temporary file has a terabyte")
)

// spool is a temporary file that is appended to and read from anywhere, so that
// memory need not hold Events. It is for one goroutine at a time.
type spool struct {
	view

	pending []byte // not in the file yet
	flushed int64  // in the file
}

// newSpool makes a spool in a directory; empty stands for the system's own.
// Where the system allows it, the file has no name any more.
func newSpool(dir string) (*spool, error) {
	file, err := os.CreateTemp(dir, "eventquota-simulate-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	_ = os.Remove(file.Name()) // close tries again
	return &spool{view: view{file: file, most: spoolGlance}}, nil
}

func (s *spool) close() {
	_ = s.file.Close() // nobody wants its content any more
	_ = os.Remove(s.file.Name())
}

// end is the offset of what is appended next.
func (s *spool) end() int64 { return s.flushed + int64(len(s.pending)) }

// append appends the parts as one, which it does not keep.
func (s *spool) append(parts ...[]byte) (span, error) {
	offset, size := s.end(), 0
	for _, part := range parts {
		size += len(part)
	}
	switch {
	case size > maxSpan:
		return 0, errLargeSpan
	case offset > maxOffset:
		return 0, errFullSpool
	}
	for _, part := range parts {
		s.pending = append(s.pending, part...)
	}
	at := newSpan(offset, size)
	if len(s.pending) >= spoolBuffer {
		return at, s.flush()
	}
	return at, nil
}

func (s *spool) flush() error {
	n, err := s.file.WriteAt(s.pending, s.flushed)
	s.flushed += int64(n)
	s.pending = s.pending[:0]
	if err != nil {
		return fmt.Errorf("write a temporary file: %w", err)
	}
	return nil
}

// read returns what is at a place. It holds until the next call.
func (s *spool) read(at span) ([]byte, error) {
	if at.offset() >= s.flushed { // flush writes whole entries
		from := at.offset() - s.flushed
		return s.pending[from : from+at.size()], nil
	}
	return s.view.read(at)
}

// view reads a spool that is flushed. Several views of a spool may be read from at
// the same time, each by one goroutine.
type view struct {
	file   *os.File
	most   int    // how much is read at a time, unless one entry is longer
	window []byte // what was read last
	start  int64  // where window begins
}

// read returns what is at a place. It holds until the next call.
func (v *view) read(at span) ([]byte, error) {
	if at.offset() < v.start || at.offset()+at.size() > v.start+int64(len(v.window)) {
		if err := v.fill(at); err != nil {
			return nil, err
		}
	}
	from := at.offset() - v.start
	return v.window[from : from+at.size()], nil
}

// fill reads the window anew, so that it begins with what is at a place.
func (v *view) fill(at span) error {
	n := max(int(at.size()), v.most)
	if cap(v.window) < n || cap(v.window) > 4*max(n, v.most) {
		v.window = make([]byte, n)
	}
	v.start = at.offset()
	got, err := v.file.ReadAt(v.window[:n], v.start)
	v.window = v.window[:got]
	if int64(got) < at.size() {
		v.window = v.window[:0]
		return fmt.Errorf("read a temporary file: %w", err)
	}
	return nil
}
