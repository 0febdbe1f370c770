package simulate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/fxamacker/cbor/v2"
	corev1 "k8s.io/api/core/v1"
)

// spool is a temporary file of writes, so that memory need not hold Events. It is for one goroutine at a time.
type spool struct {
	file *os.File
	// written is how much of the file there is, and pending what follows, which is written together.
	written int64
	pending []byte

	reader *bufio.Reader // mostly reads a whole write at once
	enc    cbor.EncMode
	dec    cbor.DecMode
}

// newSpool makes a spool. Where the system allows it, the file has no name, so a process that is killed leaves nothing.
func newSpool() (*spool, error) {
	file, err := os.CreateTemp("", "eventquota-simulate-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	_ = os.Remove(file.Name()) // close tries again
	enc, err := cbor.EncOptions{Time: cbor.TimeRFC3339Nano}.EncMode()
	dec, other := cbor.DecOptions{MaxArrayElements: math.MaxInt32, MaxMapPairs: math.MaxInt32}.DecMode() // what a line holds
	return &spool{file: file, reader: bufio.NewReader(nil), enc: enc, dec: dec}, errors.Join(err, other)
}

func (s *spool) close() {
	_ = s.file.Close() // its content is not needed any more
	_ = os.Remove(s.file.Name())
}

// append appends w, and returns its offset.
func (s *spool) append(w *write) (offset int64, err error) {
	record, err := s.encode(w)
	if err != nil {
		return 0, err
	}
	return s.write(record)
}

// encode makes what write takes. It is safe for concurrent use.
func (s *spool) encode(w *write) (record []byte, err error) {
	if w.event != nil {
		if w.Event, err = w.event.Marshal(); err != nil {
			return nil, err
		}
	}
	return s.enc.Marshal(w)
}

// pendingBytes is how much is written to the file at once, or a little more.
const pendingBytes = 1 << 20

// end is where the next write goes.
func (s *spool) end() int64 { return s.written + int64(len(s.pending)) }

// write appends an encoded write, and returns its offset.
func (s *spool) write(record []byte) (offset int64, err error) {
	offset = s.end()
	if s.pending = append(s.pending, record...); len(s.pending) >= pendingBytes {
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
func (s *spool) truncate(end int64) { s.written, s.pending = end, s.pending[:0] }

// read returns the write at an offset.
func (s *spool) read(offset int64) (*write, error) {
	if offset >= s.written {
		return s.decode(bytes.NewReader(s.pending[offset-s.written:]))
	}
	return s.readBy(s.reader, offset, s.written)
}

// readBy returns the write at an offset, before an end that flush has returned, by a reader. It is safe for concurrent use, each with a
// reader of its own.
func (s *spool) readBy(reader *bufio.Reader, offset, end int64) (*write, error) {
	reader.Reset(io.NewSectionReader(s.file, offset, end-offset))
	return s.decode(reader)
}

func (s *spool) decode(in io.Reader) (*write, error) {
	w := &write{}
	err := s.dec.NewDecoder(in).Decode(w)
	if err == nil && len(w.Event) > 0 { // an Event takes at least one byte
		w.event = &corev1.Event{}
		err = w.event.Unmarshal(w.Event)
	}
	if err != nil {
		return nil, fmt.Errorf("read a temporary file: %w", err)
	}
	return w, nil
}
