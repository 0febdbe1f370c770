package simulate

import (
	"fmt"
	"os"
)

// spoolBuffer is how much of a spool is in memory, for writing and for reading
// each.
const spoolBuffer = 256 << 10

// span is where something is in a spool.
type span struct {
	offset int64
	size   int32
}

// spool is a temporary file that is appended to and read from anywhere, so that
// memory need not hold Events. It is for one goroutine at a time.
type spool struct {
	file    *os.File
	pending []byte // not in the file yet
	flushed int64  // in the file
	window  []byte // what was read from the file last
	start   int64  // where window begins
}

// newSpool makes a spool in a directory; empty stands for the system's own.
// Where the system allows it, the file has no name any more.
func newSpool(dir string) (*spool, error) {
	file, err := os.CreateTemp(dir, "eventquota-simulate-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	_ = os.Remove(file.Name()) // close tries again
	return &spool{file: file}, nil
}

func (s *spool) close() {
	_ = s.file.Close() // nobody wants its content any more
	_ = os.Remove(s.file.Name())
}

// append appends b, which it does not keep.
func (s *spool) append(b []byte) (span, error) {
	at := span{offset: s.flushed + int64(len(s.pending)), size: int32(len(b))}
	s.pending = append(s.pending, b...)
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
	if at.offset >= s.flushed { // flush writes whole entries
		from := at.offset - s.flushed
		return s.pending[from : from+int64(at.size)], nil
	}
	if at.offset < s.start || at.offset+int64(at.size) > s.start+int64(len(s.window)) {
		n := min(max(int64(at.size), spoolBuffer/4), s.flushed-at.offset)
		if int64(cap(s.window)) < n {
			s.window = make([]byte, n)
		}
		s.window, s.start = s.window[:n], at.offset
		if _, err := s.file.ReadAt(s.window, at.offset); err != nil {
			s.window = s.window[:0]
			return nil, fmt.Errorf("read a temporary file: %w", err)
		}
	}
	from := at.offset - s.start
	return s.window[from : from+int64(at.size)], nil
}
