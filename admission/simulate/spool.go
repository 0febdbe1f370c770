package simulate

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
)

const (
	// spoolBuffer is how much of a spool is in memory before it is written.
	spoolBuffer = 256 << 10
	// windowBytes is how much a view reads at a time.
	windowBytes = 8 << 10
	// lengthBytes is what precedes a record.
	lengthBytes = 4
)

// spool is a temporary file of records, so that memory need not hold Events. It is for one goroutine at a
// time.
type spool struct {
	view

	out *bufio.Writer
	end int64 // where the next record goes
}

// newSpool makes a spool in a directory; empty stands for the system's default. Where the system allows
// it, the file has no name, so that nothing is left of a process that is killed.
func newSpool(dir string) (*spool, error) {
	file, err := os.CreateTemp(dir, "eventquota-simulate-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	_ = os.Remove(file.Name()) // close tries again
	return &spool{view: view{file: file}, out: bufio.NewWriterSize(file, spoolBuffer)}, nil
}

func (s *spool) close() {
	_ = s.file.Close() // its content is not needed any more
	_ = os.Remove(s.file.Name())
}

// append appends a record, and returns its offset.
func (s *spool) append(record []byte) (int64, error) {
	offset := s.end
	s.end += lengthBytes + int64(len(record))
	_, _ = s.out.Write(binary.LittleEndian.AppendUint32(s.out.AvailableBuffer(), uint32(len(record)))) // the next fails as well
	if _, err := s.out.Write(record); err != nil {
		return 0, fmt.Errorf("write a temporary file: %w", err)
	}
	return offset, nil
}

// cut removes the records from an offset on.
func (s *spool) cut(offset int64) error {
	s.out.Reset(io.NewOffsetWriter(s.file, offset))
	s.end, s.window = offset, nil
	return s.file.Truncate(offset)
}

func (s *spool) flush() error {
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("write a temporary file: %w", err)
	}
	return nil
}

// read returns the record at an offset. It is valid until the next call.
func (s *spool) read(offset int64) ([]byte, error) {
	if err := s.flush(); err != nil {
		return nil, err
	}
	return s.view.read(offset)
}

// view reads records that are in the file. Several views of a spool may be in use at the same time, each by one
// goroutine, also while other records are appended.
type view struct {
	file   *os.File
	window []byte // what was read last
	start  int64  // where window begins
}

// read returns the record at an offset. It is valid until the next call.
func (v *view) read(offset int64) ([]byte, error) {
	length, err := v.bytes(offset, lengthBytes)
	if err != nil {
		return nil, err
	}
	return v.bytes(offset+lengthBytes, int(binary.LittleEndian.Uint32(length)))
}

// bytes are n bytes at an offset.
func (v *view) bytes(offset int64, n int) ([]byte, error) {
	from := offset - v.start
	if from < 0 || from+int64(n) > int64(len(v.window)) {
		size := max(n, windowBytes)
		v.window = slices.Grow(v.window[:0], size)[:size]
		got, err := v.file.ReadAt(v.window, offset)
		v.window, v.start, from = v.window[:got], offset, 0
		if got < n {
			return nil, fmt.Errorf("read a temporary file: %w", err)
		}
	}
	return v.window[from : from+int64(n)], nil
}
