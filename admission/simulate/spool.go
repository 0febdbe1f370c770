package simulate

import (
	"bufio"
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
	file   *os.File
	end    int64         // where the next write goes
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
	if w.event != nil {
		if w.Event, err = w.event.Marshal(); err != nil {
			return 0, err
		}
	}
	record, err := s.enc.Marshal(w)
	if err != nil {
		return 0, err
	}
	offset = s.end
	if _, err := s.file.WriteAt(record, offset); err != nil {
		return 0, fmt.Errorf("write a temporary file: %w", err)
	}
	s.end += int64(len(record))
	return offset, nil
}

// read returns the write at an offset.
func (s *spool) read(offset int64) (*write, error) {
	s.reader.Reset(io.NewSectionReader(s.file, offset, s.end-offset))
	w := &write{}
	err := s.dec.NewDecoder(s.reader).Decode(w)
	if err == nil && len(w.Event) > 0 { // an Event takes at least one byte
		w.event = &corev1.Event{}
		err = w.event.Unmarshal(w.Event)
	}
	if err != nil {
		return nil, fmt.Errorf("read a temporary file: %w", err)
	}
	return w, nil
}
