package simulate

import (
	"encoding/binary"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// verb is what a write does.
type verb byte

const (
	create verb = iota
	update
	patch
	remove
	// stored is an Event as it was found: a replay makes of it the writes that led to it.
	stored
	// repeat is a recorder's patch that a replay made: a new count and a new time.
	repeat
)

// String is the verb as requests have it.
func (v verb) String() string {
	return [...]string{"create", "update", "patch", "delete", "create", "patch"}[v]
}

// write is one request about an Event.
type write struct {
	facts

	// at is its place in the order of all writes: when it was decided, or received where that is not known.
	at              time.Time
	namespace, name string
	// id is its auditID, if it has one.
	id string
	// event is what a create or update wrote. For a patch it is what the patch made of the Event, or nil
	// where this was not recorded.
	event *corev1.Event
	patch string
	// user is the writer as JSON, until User is known.
	user string
	// scratch holds event when the write was parsed or decoded, so that reusing a write allocates no Event.
	scratch corev1.Event
	// offset is where the trace has it.
	offset int64
}

// facts are of fixed size, so that package binary encodes them.
type facts struct {
	// User and File are indexes into users.all and Input.Files.
	User, File int32
	Line       int64
	// Late is how much earlier than at the time was that the store was given: a write with a later time
	// may have been decided first.
	Late time.Duration
	Verb verb
	// NewAPI says that it came through events.k8s.io.
	NewAPI bool
	// Free says that without eventquota it was no write to etcd either.
	Free bool
	// Managed says that its client gave a field manager, as no recorder does.
	Managed bool
}

var errDamaged = errors.New("temporary file is damaged")

// encode appends w to b, without at and offset: facts, texts after their lengths, and the Event, if there is one,
// as protobuf.
func (w *write) encode(b []byte) ([]byte, error) {
	b, err := binary.Append(b, binary.LittleEndian, &w.facts)
	if err != nil {
		return b, err
	}
	for _, s := range [...]string{w.namespace, w.name, w.id, w.patch} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	if w.event == nil {
		return b, nil
	}
	b = append(b, make([]byte, w.event.Size())...)
	_, err = w.event.MarshalToSizedBuffer(b[len(b)-w.event.Size():])
	return b, err
}

// decode decodes what encode made. It keeps no part of b.
func (w *write) decode(b []byte) error {
	n, err := binary.Decode(b, binary.LittleEndian, &w.facts)
	if err != nil {
		return errDamaged
	}
	b = b[n:]
	for _, text := range []*string{&w.namespace, &w.name, &w.id, &w.patch} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return errDamaged
		}
		end := n + int(size)
		*text, b = string(b[n:end]), b[end:]
	}
	w.event = nil
	if len(b) == 0 { // an Event takes at least one byte
		return nil
	}
	w.scratch.Reset()
	w.event = &w.scratch
	return w.event.Unmarshal(b)
}
