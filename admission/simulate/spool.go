package simulate

import (
	"encoding/binary"
	"fmt"
	"os"
)

const (
	// spoolBuffer is how much of a spool is in memory before it is written, and how much a view reads at a time when
	// it goes through all of it.
	spoolBuffer = 256 << 10
	// spoolGlance is how much a view reads at a time when it reads here and there.
	spoolGlance = 4 << 10
	// lengthBytes is what precedes a record.
	lengthBytes = 4
)

// spool is a temporary file of records, so that memory need not hold Events. It is for one goroutine at a
// time.
type spool struct {
	view

	pending []byte // not in the file yet: whole records
	flushed int64  // in the file
}

func (s *spool) viewed() view { return view{file: s.file} }

// newSpool makes a spool in a directory; empty stands for the system's default. Where the system allows
// it, the file has no name, so that nothing is left of a process that is killed.
func newSpool(dir string) (*spool, error) {
	file, err := os.CreateTemp(dir, "eventquota-simulate-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	_ = os.Remove(file.Name()) // close tries again
	return &spool{view: view{file: file}}, nil
}

func (s *spool) close() {
	_ = s.file.Close() // its content is not needed any more
	_ = os.Remove(s.file.Name())
}

// end is the offset of the next record.
func (s *spool) end() int64 { return s.flushed + int64(len(s.pending)) }

// append appends a record, and returns its offset.
func (s *spool) append(record []byte) (int64, error) {
	offset := s.end()
	s.pending = binary.LittleEndian.AppendUint32(s.pending, uint32(len(record)))
	s.pending = append(s.pending, record...)
	if len(s.pending) >= spoolBuffer {
		return offset, s.flush()
	}
	return offset, nil
}

// cut removes the records from an offset on, all of which were flushed before it.
func (s *spool) cut(offset int64) {
	s.pending, s.flushed, s.window = s.pending[:0], offset, nil
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

// read returns the record at an offset. It is valid until the next call.
func (s *spool) read(offset int64) ([]byte, error) {
	if from := offset - s.flushed; from >= 0 {
		record := s.pending[from:]
		return record[lengthBytes:][:binary.LittleEndian.Uint32(record)], nil
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

// bytes are n bytes at an offset. If they are not in the window, that is read again from there on: twice as much as
// before if they follow it, and little if they do not.
func (v *view) bytes(offset int64, n int) ([]byte, error) {
	from := offset - v.start
	if from < 0 || from+int64(n) > int64(len(v.window)) {
		size := max(n, spoolGlance)
		if from >= 0 && from <= int64(len(v.window)) {
			size = max(size, min(2*len(v.window), spoolBuffer))
		}
		if cap(v.window) < size || cap(v.window) > 4*max(size, spoolBuffer) {
			v.window = make([]byte, size)
		}
		got, err := v.file.ReadAt(v.window[:size], offset)
		v.window, v.start, from = v.window[:got], offset, 0
		if got < n {
			return nil, fmt.Errorf("read a temporary file: %w", err)
		}
	}
	return v.window[from : from+int64(n)], nil
}
