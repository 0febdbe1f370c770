package simulate

// The encoded form of a write in a Trace. msgp generates the methods.

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//msgp:tuple user record
//msgp:ignore write slab cell

// verb is the verb of a request, or stored.
type verb string

const (
	create verb = "create"
	update verb = "update"
	patch  verb = "patch"
	remove verb = "delete"
	// removeAll deletes all Events of a namespace, as happens when the namespace is deleted.
	removeAll verb = "deletecollection"
	// stored is the final state of an Event. A replay expands it into the writes that led to it.
	stored verb = "stored"
)

// deletes reports whether the verb deletes Events.
func (v verb) deletes() bool { return v == remove || v == removeAll }

// user is the encoded form of a policy.UserInfo.
type user struct {
	Username string
	UID      string
	Groups   []string            `msg:",allownil"`
	Extra    map[string][]string `msg:",allownil"`
}

// record has the fields of a write except for the Event.
type record struct {
	// At orders all writes. It is the time of the decision or, if that is unknown, when the API server received the write.
	At time.Time
	// Last is the time of the last occurrence if the verb is stored. Otherwise it is At.
	Last time.Time
	// Clock is the time that was passed to the store. A write with a later time may have been decided earlier.
	Clock time.Time
	// File is the index in Input.Files, and Line the number of the line or entry in that file.
	File int
	Line int64
	Verb verb
	User user
	// NewAPI reports whether the client used events.k8s.io.
	NewAPI bool
	// Free reports that the write does not reach etcd even without eventquota.
	Free bool
	// HistoryKnown reports that the trace has all earlier writes, so an unknown Event is not stored.
	HistoryKnown bool
	// Managed reports that the client set a field manager. Recorders never do.
	Managed   bool
	Namespace string
	Name      string
	// ID is the audit ID, if known.
	ID string
	// Patch is the body of a patch. It is empty for a patch that a replay made: the count and time are then in event.
	Patch []byte `msg:",allownil"`
}

// write is one request about an Event.
type write struct {
	record

	// event is the Event in a create or update. For a patch it is the Event after the patch, or nil if that was not
	// recorded.
	event *corev1.Event
	// size is the approximate memory in bytes. offset is the offset of the unchanged event in the spool, or -1 if it is
	// not there. Both are set when a write is read from the spool.
	size   int
	offset int64
	// prepared is the part of the decision that was made ahead, or nil.
	prepared *prepared
}

// slab is reusable memory for writes. Reducing used frees cells.
type slab struct {
	all  []*cell
	used int
}

// cell is memory for a write, its Event and its prepared decision.
type cell struct {
	write    write
	event    quickEvent
	prepared *prepared
}

// next returns an empty cell.
func (s *slab) next() *cell {
	if s.used == len(s.all) {
		s.all = append(s.all, &cell{})
	}
	next := s.all[s.used]
	s.used++
	*next = cell{prepared: next.prepared}
	return next
}

// recount sets the count of e to n and its last occurrence to at.
func recount(e *corev1.Event, n int64, at time.Time) {
	if e.Series != nil {
		e.Series = &corev1.EventSeries{Count: int32(n), LastObservedTime: metav1.NewMicroTime(at)}
		return
	}
	e.Count, e.LastTimestamp.Time = int32(n), at
}
