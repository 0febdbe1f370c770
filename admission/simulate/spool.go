package simulate

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
)

// spool stores writes in a temporary file to keep Events out of memory. Only one goroutine at a time may use it.
type spool struct {
	file *os.File
	// written is the length of the file in bytes. pending is buffered data that follows.
	written int64
	pending []byte
	window  window
}

// newSpool creates a spool. If the system allows it, the file is unlinked at once, so a killed process leaves no file.
func newSpool() (*spool, error) {
	file, err := os.CreateTemp("", "eventquota-simulate-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	_ = os.Remove(file.Name()) // close tries again
	return &spool{file: file}, nil
}

func (s *spool) close() {
	_ = s.file.Close() // the data is discarded
	_ = os.Remove(s.file.Name())
}

// lengthBytes is the size of the length in front of each write.
const lengthBytes = 4

// encoded returns w in the format of the spool: its length, its record, and its Event as protobuf, which is lossless.
func encoded(w *write) ([]byte, error) { return appendEncoded(nil, w) }

// appendEncoded appends the encoded w to b.
func appendEncoded(b []byte, w *write) ([]byte, error) {
	size := 0
	if w.event != nil {
		size = w.event.Size()
	}
	from := len(b)
	b = slices.Grow(b, lengthBytes+w.Msgsize()+size)
	b, err := w.MarshalMsg(append(b, make([]byte, lengthBytes)...))
	if err != nil {
		return b[:from], err
	}
	if size > 0 {
		at := len(b)
		b = slices.Grow(b, size)[:at+size]
		if _, err := w.event.MarshalToSizedBuffer(b[at:]); err != nil {
			return b[:from], err
		}
	}
	binary.LittleEndian.PutUint32(b[from:], uint32(len(b)-from-lengthBytes))
	return b, nil
}

// decodedWrite decodes a write, without its length, into an empty cell. The result shares no memory with b.
func decodedWrite(b []byte, to *cell) (*write, error) {
	w := &to.write
	w.size, w.offset = len(b), -1
	event, err := w.UnmarshalMsg(b)
	if err == nil && len(event) > 0 { // an Event takes at least one byte
		w.event = &to.event.Event
		err = w.event.Unmarshal(event)
	}
	if err != nil {
		return nil, fmt.Errorf("read a temporary file: %w", err)
	}
	return w, nil
}

// append appends w and returns its offset.
func (s *spool) append(w *write) (offset int64, err error) {
	record, err := encoded(w)
	if err != nil {
		return 0, err
	}
	return s.write(record)
}

// pendingBytes is the approximate amount of data per write to the file.
const pendingBytes = 1 << 20

// spotAlignment is the alignment of offsets, so that a spot can hold one. maxOffset, 128 GiB, bounds the size of the file.
const spotAlignment, maxOffset = 32, spotAlignment * math.MaxUint32

// spot is an offset divided by spotAlignment.
type spot uint32

func spotOf(offset int64) spot { return spot(offset / spotAlignment) }

func (s spot) offset() int64 { return int64(s) * spotAlignment }

// end returns the offset of the next write.
func (s *spool) end() int64 { return s.written + int64(len(s.pending)) }

// write appends an encoded write and returns its offset.
func (s *spool) write(record []byte) (offset int64, err error) {
	offset = s.end()
	if offset > maxOffset {
		return 0, fmt.Errorf("write a temporary file: it would be longer than %d bytes", int64(maxOffset))
	}
	s.pending = append(s.pending, record...)
	var padding [spotAlignment]byte
	s.pending = append(s.pending, padding[:-len(record)&(spotAlignment-1)]...)
	if len(s.pending) >= pendingBytes {
		_, err = s.flush()
	}
	return offset, err
}

// flush writes the pending data to the file and returns the end.
func (s *spool) flush() (end int64, err error) {
	if _, err := s.file.WriteAt(s.pending, s.written); err != nil {
		return 0, fmt.Errorf("write a temporary file: %w", err)
	}
	s.written, s.pending = s.end(), s.pending[:0]
	return s.written, nil
}

// truncate removes everything after end, which flush returned.
func (s *spool) truncate(end int64) { s.written, s.pending, s.window = end, s.pending[:0], window{} }

// read returns the write at offset.
func (s *spool) read(offset int64) (*write, error) {
	if offset < s.written {
		return s.readBy(&s.window, offset, s.written, &cell{})
	}
	w, err := decodedWrite(framed(s.pending[offset-s.written:]), &cell{})
	if err == nil {
		w.offset = offset
	}
	return w, err
}

// framed returns the data after a length.
func framed(b []byte) []byte { return b[lengthBytes:][:binary.LittleEndian.Uint32(b)] }

// readBy reads the write at offset into an empty cell, through a window. end is an end that flush returned. readBy is safe for
// concurrent use if each goroutine has its own window.
func (s *spool) readBy(through *window, offset, end int64, to *cell) (*write, error) {
	length, err := through.at(s.file, offset, lengthBytes, end)
	if err != nil {
		return nil, err
	}
	b, err := through.at(s.file, offset, lengthBytes+int(binary.LittleEndian.Uint32(length)), end)
	if err != nil {
		return nil, err
	}
	w, err := decodedWrite(framed(b), to)
	if err == nil {
		w.offset = offset
	}
	return w, err
}

// window caches a part of the file that does not change.
type window struct {
	bytes  []byte
	offset int64
}

// windowBytes is the amount of data per read. It usually contains several writes, which are often read in sequence.
const windowBytes = 8 << 10

// at returns n bytes at offset, which must be before end. They are valid until the next call.
func (w *window) at(file *os.File, offset int64, n int, end int64) ([]byte, error) {
	if offset < w.offset || offset+int64(n) > w.offset+int64(len(w.bytes)) {
		size := int(min(int64(max(n, windowBytes)), end-offset))
		w.bytes, w.offset = slices.Grow(w.bytes[:0], size)[:size], offset
		if _, err := file.ReadAt(w.bytes, offset); err != nil {
			w.bytes = nil
			return nil, fmt.Errorf("read a temporary file: %w", err)
		}
	}
	return w.bytes[offset-w.offset:][:n], nil
}
