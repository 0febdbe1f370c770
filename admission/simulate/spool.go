package simulate

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
)

// spool is a temporary file of writes, so that memory need not hold Events. It is for one goroutine at a time.
type spool struct {
	file *os.File
	// written is how much of the file there is, and pending what follows, which is written together.
	written int64
	pending []byte
	window  window
}

// newSpool makes a spool. Where the system allows it, the file has no name, so a process that is killed leaves nothing.
func newSpool() (*spool, error) {
	file, err := os.CreateTemp("", "eventquota-simulate-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	_ = os.Remove(file.Name()) // close tries again
	return &spool{file: file}, nil
}

func (s *spool) close() {
	_ = s.file.Close() // its content is not needed any more
	_ = os.Remove(s.file.Name())
}

// lengthBytes are before each write: how long what follows is.
const lengthBytes = 4

// encoded is w as the spool has it: its length, its record, and its Event as protobuf, which keeps all of it.
func encoded(w *write) ([]byte, error) { return appendEncoded(nil, w) }

// appendEncoded appends what encoded returns.
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

// decodedWrite is a write that was encoded, after its length. It is in an empty cell, and shares no memory with b.
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

// append appends w, and returns its offset.
func (s *spool) append(w *write) (offset int64, err error) {
	record, err := encoded(w)
	if err != nil {
		return 0, err
	}
	return s.write(record)
}

// pendingBytes is how much is written to the file at once, or a little more.
const pendingBytes = 1 << 20

// spotAlignment is what offsets are multiples of, so that a spot says where a write is. The file may have maxOffset bytes and one write: 128 GiB.
const spotAlignment, maxOffset = 32, spotAlignment * math.MaxUint32

// spot is an offset, in units of aligned.
type spot uint32

func spotOf(offset int64) spot { return spot(offset / spotAlignment) }

func (s spot) offset() int64 { return int64(s) * spotAlignment }

// end is where the next write goes.
func (s *spool) end() int64 { return s.written + int64(len(s.pending)) }

// write appends an encoded write, and returns its offset.
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

// flush writes what is pending, and returns the end.
func (s *spool) flush() (end int64, err error) {
	if _, err := s.file.WriteAt(s.pending, s.written); err != nil {
		return 0, fmt.Errorf("write a temporary file: %w", err)
	}
	s.written, s.pending = s.end(), s.pending[:0]
	return s.written, nil
}

// truncate forgets what was appended after an end that flush has returned.
func (s *spool) truncate(end int64) { s.written, s.pending, s.window = end, s.pending[:0], window{} }

// read returns the write at an offset.
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

// framed is what follows its length.
func framed(b []byte) []byte { return b[lengthBytes:][:binary.LittleEndian.Uint32(b)] }

// readBy returns the write at an offset, before an end that flush has returned, through a window, in an empty cell. It is safe for
// concurrent use, each with a window of its own.
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

// window is a part of a file that does not change.
type window struct {
	bytes  []byte
	offset int64
}

// windowBytes is how much is read at once: mostly several writes, which often follow each other.
const windowBytes = 8 << 10

// at returns n bytes at an offset, which are valid until the next call. They are before end.
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
