package simulate

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

const (
	flagNewAPI = 1 << iota
	flagFree
	flagManaged
	flagEvent
)

// append appends w to b, without at and its place.
func (w *write) append(b []byte) ([]byte, error) {
	flags := byte(0)
	for i, set := range [...]bool{w.newAPI, w.free, w.managed, w.event != nil} {
		if set {
			flags |= 1 << i
		}
	}
	b = append(b, byte(w.verb), flags)
	b = binary.AppendVarint(b, int64(w.late))
	for _, s := range [...]string{w.namespace, w.name, w.id, w.patch} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	if w.event == nil {
		return b, nil
	}
	size := w.event.Size()
	b = slices.Grow(b, size)
	_, err := w.event.MarshalToSizedBuffer(b[len(b) : len(b)+size])
	return b[:len(b)+size], err
}

// placeBytes is the most that a place takes.
const placeBytes = 3 * binary.MaxVarintLen64

func (p place) append(b []byte) []byte {
	b = binary.AppendVarint(b, int64(p.user))
	b = binary.AppendVarint(b, int64(p.file))
	return binary.AppendVarint(b, p.line)
}

var errSpool = errors.New("temporary file is damaged")

// decode reads a place and what append wrote into w. It keeps nothing of b, and
// writes w.event, which must be set, where there is one.
func (w *write) decode(b []byte) error {
	r := record{rest: b}
	event := w.event
	*w = write{place: place{int(r.number()), int(r.number()), r.number()}}
	kind := r.next(2)
	w.late = time.Duration(r.number())
	w.namespace, w.name, w.id, w.patch = r.text(), r.text(), r.text(), r.text()
	if r.damaged {
		return errSpool
	}
	flags := kind[1]
	w.verb, w.newAPI, w.free, w.managed = verb(kind[0]), flags&flagNewAPI != 0, flags&flagFree != 0, flags&flagManaged != 0
	if flags&flagEvent == 0 {
		return nil
	}
	event.Reset()
	w.event = event
	return event.Unmarshal(r.rest)
}

// record reads parts one after the other.
type record struct {
	rest    []byte
	damaged bool
}

func (r *record) next(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.damaged = true
		return make([]byte, 2)
	}
	part := r.rest[:n]
	r.rest = r.rest[n:]
	return part
}

func (r *record) number() int64 {
	v, n := binary.Varint(r.rest)
	r.damaged = r.damaged || n <= 0
	r.rest = r.rest[max(n, 0):]
	return v
}

func (r *record) text() string {
	v, n := binary.Uvarint(r.rest)
	r.damaged = r.damaged || n <= 0
	r.rest = r.rest[max(n, 0):]
	return string(r.next(v))
}
