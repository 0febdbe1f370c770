package simulate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy"
)

// verb is what a write does, as requests have it.
type verb string

const (
	create verb = "create"
	update verb = "update"
	patch  verb = "patch"
	remove verb = "delete"
	// stored is an Event as it was found: a replay makes of it the writes that led to it.
	stored verb = "stored"
)

// write is one request about an Event. The trace has its exported fields as CBOR.
type write struct {
	// At is its place in the order of all writes: when it was decided, or received where that is not known.
	At time.Time
	// Last is when the last of the writes happened that it stands for, if it is stored, and else At.
	Last time.Time
	// Clock is the time that the store was given: a write with a later one may have been decided first.
	Clock time.Time
	// File is the place of its file in Input.Files, and Line that in the file.
	File int
	Line int64
	Verb verb
	User policy.UserInfo
	// NewAPI says that it came through events.k8s.io.
	NewAPI bool
	// Free says that without eventquota it was no write to etcd either.
	Free bool
	// Known says that all writes before it are in the trace, so an Event that is not found is not stored.
	Known bool
	// Managed says that its client gave a field manager, as no recorder does.
	Managed         bool
	Namespace, Name string
	// ID is its auditID, if it has one.
	ID string
	// Patch is the body of a patch; empty for that of a recorder which a replay made, whose count and time event has.
	Patch []byte
	// Event is event as protobuf, which keeps all of it, if there is one.
	Event []byte

	// event is what a create or update wrote. For a patch it is what the patch made of the Event, or nil
	// where this was not recorded.
	event *corev1.Event
}

// recount makes e say that it happened n times, and last at a time.
func recount(e *corev1.Event, n int64, at time.Time) {
	if e.Series != nil {
		e.Series = &corev1.EventSeries{Count: int32(n), LastObservedTime: metav1.NewMicroTime(at)}
		return
	}
	e.Count, e.LastTimestamp.Time = int32(n), at
}
