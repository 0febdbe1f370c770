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
	// stored is no write: an Event as it was found, which tells of as many
	// writes as expand makes of it.
	stored
	// repeat is a recorder's patch, as expand makes it: it says no more than a
	// count and a time.
	repeat
)

// String is the verb as requests have it.
func (v verb) String() string {
	return [...]string{"create", "update", "patch", "delete", "create", "patch"}[v]
}

// write is one request about an Event.
type write struct {
	at   time.Time
	verb verb
	// newAPI tells that it came through events.k8s.io.
	newAPI bool
	// free tells that it was no write to etcd without eventquota either.
	free            bool
	namespace, name string
	// user is an index into Trace.users.
	user int
	// file and line are where it was read, and id is its auditID, if it has one.
	file int
	line int64
	id   string
	// event is what a create or update wrote. For a patch it is what that made
	// of the Event, or nil where this was not recorded.
	event *corev1.Event
	patch []byte
	// span is where it is in the trace.
	span span
}

const (
	flagNewAPI = 1 << iota
	flagFree
	flagEvent
)

// append appends w to b, without at.
func (w *write) append(b []byte) ([]byte, error) {
	flags := byte(0)
	for flag, set := range map[byte]bool{flagNewAPI: w.newAPI, flagFree: w.free, flagEvent: w.event != nil} {
		if set {
			flags |= flag
		}
	}
	b = append(b, byte(w.verb), flags)
	for _, n := range []int64{int64(w.user), int64(w.file), w.line} {
		b = binary.AppendVarint(b, n)
	}
	for _, s := range []string{w.namespace, w.name, w.id, string(w.patch)} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	if w.event == nil {
		return b, nil
	}
	event, err := w.event.Marshal()
	return append(b, event...), err
}

var errSpool = errors.New("temporary file is damaged")

// readWrite is the opposite of append. It keeps nothing of b.
func readWrite(b []byte) (*write, error) {
	if len(b) < 2 {
		return nil, errSpool
	}
	w := &write{verb: verb(b[0]), newAPI: b[1]&flagNewAPI != 0, free: b[1]&flagFree != 0}
	hasEvent := b[1]&flagEvent != 0
	rest := b[2:]
	number := func() int64 {
		v, n := binary.Varint(rest)
		rest = rest[max(n, 0):]
		return v
	}
	w.user, w.file, w.line = int(number()), int(number()), number()
	damaged := false
	text := func() string {
		v, n := binary.Uvarint(rest)
		rest = rest[max(n, 0):]
		if n <= 0 || v > uint64(len(rest)) {
			damaged = true
			return ""
		}
		s := string(rest[:v])
		rest = rest[v:]
		return s
	}
	w.namespace, w.name, w.id = text(), text(), text()
	w.patch = []byte(text())
	if damaged {
		return nil, errSpool
	}
	if !hasEvent {
		return w, nil
	}
	w.event = &corev1.Event{}
	return w, w.event.Unmarshal(rest)
}
