package simulate

import (
	"time"

	"github.com/fxamacker/cbor/v2"
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
	at time.Time
	// event is what a create or update wrote. For a patch it is what the patch made of the Event, or nil
	// where this was not recorded.
	event *corev1.Event
	// user is the writer as JSON, until User is known.
	user string
	// scratch holds event when the write was parsed or decoded, so that reusing a write allocates no Event.
	scratch corev1.Event
	// offset is where the trace has it.
	offset int64
}

// facts are what a spool has of a write.
type facts struct {
	_ struct{} `cbor:",toarray"`

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
	Managed         bool
	Namespace, Name string
	// ID is its auditID, if it has one.
	ID    string
	Patch []byte
	// Event is the event as protobuf, if there is one.
	Event []byte
}

// encode is w, without at and offset.
func (w *write) encode() (record []byte, err error) {
	w.Event = nil
	if w.event != nil {
		if w.Event, err = w.event.Marshal(); err != nil {
			return nil, err
		}
	}
	return cbor.Marshal(&w.facts)
}

// decode decodes what encode made. It keeps no part of b.
func (w *write) decode(b []byte) error {
	w.event = nil
	if err := cbor.Unmarshal(b, &w.facts); err != nil || len(w.Event) == 0 { // an Event takes at least one byte
		return err
	}
	w.scratch.Reset()
	w.event = &w.scratch
	return w.event.Unmarshal(w.Event)
}
