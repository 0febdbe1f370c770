package simulate

import (
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
	// stored is no write: an Event as it was found, which expand makes writes of.
	stored
	// repeat is a recorder's patch, as expand makes it: it says no more than a
	// count and a time.
	repeat
)

// String is the verb as requests have it.
func (v verb) String() string {
	return [...]string{"create", "update", "patch", "delete", "create", "patch"}[v]
}

// place is where a write was read, and who wrote it.
type place struct {
	// user is an index into Trace.users.
	user int
	file int
	line int64
}

// write is one request about an Event.
type write struct {
	place

	// at is its place in the order of all: when it was decided, or received where
	// nobody knows that.
	at time.Time
	// late is how much earlier the time was that the store was given: less than
	// those of some that were decided before it.
	late time.Duration
	verb verb
	// newAPI tells that it came through events.k8s.io.
	newAPI bool
	// free tells that it was no write to etcd without eventquota either.
	free bool
	// managed tells that its client gave its name, as no recorder does.
	managed         bool
	namespace, name string
	// id is its auditID, if it has one.
	id string
	// event is what a create or update wrote. For a patch it is what that made
	// of the Event, or nil where this was not recorded.
	event *corev1.Event
	patch string
	// span is where it is in the trace.
	span span
}
