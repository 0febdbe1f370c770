package simulate

// What a trace keeps of a write. msgp makes the methods that encode it.

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//msgp:tuple user record
//msgp:ignore write slab cell

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

// user is a policy.UserInfo.
type user struct {
	Username string
	UID      string
	Groups   []string            `msg:",allownil"`
	Extra    map[string][]string `msg:",allownil"`
}

// record is what a trace has of a write, beside the Event.
type record struct {
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
	User user
	// NewAPI says that it came through events.k8s.io.
	NewAPI bool
	// Free says that without eventquota it was no write to etcd either.
	Free bool
	// HistoryKnown says that all writes before it are in the trace, so an Event that is not found is not stored.
	HistoryKnown bool
	// Managed says that its client gave a field manager, as no recorder does.
	Managed   bool
	Namespace string
	Name      string
	// ID is its auditID, if it has one.
	ID string
	// Patch is the body of a patch; empty for that of a recorder which a replay made, whose count and time event has.
	Patch []byte `msg:",allownil"`
}

// write is one request about an Event.
type write struct {
	record

	// event is what a create or update wrote. For a patch it is what the patch made of the Event, or nil
	// where this was not recorded.
	event *corev1.Event
	// size is about how much memory it takes, and offset where the spool has event as it is, or -1 for nowhere: of what was
	// read from there.
	size   int
	offset int64
	// prepared is what was found out about it ahead; nil for nothing.
	prepared *prepared
}

// slab is memory for writes, which is used again once used is less.
type slab struct {
	all  []*cell
	used int
}

// cell is memory for a write, for its Event, and for what is found out about it ahead, if anything is.
type cell struct {
	write    write
	event    quickEvent
	prepared *prepared
}

// next is memory for one more write.
func (s *slab) next() *cell {
	if s.used == len(s.all) {
		s.all = append(s.all, &cell{})
	}
	next := s.all[s.used]
	s.used++
	*next = cell{prepared: next.prepared}
	return next
}

// recount makes e say that it happened n times, and last at a time.
func recount(e *corev1.Event, n int64, at time.Time) {
	if e.Series != nil {
		e.Series = &corev1.EventSeries{Count: int32(n), LastObservedTime: metav1.NewMicroTime(at)}
		return
	}
	e.Count, e.LastTimestamp.Time = int32(n), at
}
