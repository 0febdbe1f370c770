package simulate

import (
	"hash/maphash"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
)

// apiServer simulates the Events that an API server stores. It also remembers refused Events, because a recorder sends
// an Event again if it is not stored. The Events are in the spool. Each live Event takes about 30 bytes of memory.
type apiServer struct {
	spool  *spool
	events hashIndex
	seed   maphash.Seed
	ttl    time.Duration // since the last write of an Event
	// emptied is when all Events of a namespace were last deleted, in nanoseconds of Unix time. Their locations stay in events. Pruning
	// removes the entries that are older than ttl.
	emptied map[string]int64
	// pruneAt is the number of entries at which emptied is pruned again.
	pruneAt int
}

// minPruned is the smallest number of entries at which emptied is pruned.
const minPruned = 1000

// location is the offset of an Event in the spool and the time of its last write.
type location struct {
	at     int64 // in nanoseconds of Unix time
	offset int64 // bitwise complement if the Event was refused
}

func (k location) refused() bool { return k.offset < 0 }

func newAPIServer(s *spool, ttl time.Duration) *apiServer {
	return &apiServer{spool: s, seed: maphash.MakeSeed(), ttl: ttl, emptied: map[string]int64{}}
}

func (a *apiServer) hash(namespace, name string) uint64 {
	return maphash.Comparable(a.seed, [...]string{namespace, name})
}

func (a *apiServer) expired(now time.Time, k location) bool {
	return now.UnixNano()-k.at >= int64(a.ttl)
}

// find returns the location of an Event by name.
func (a *apiServer) find(now time.Time, namespace, name string) (k location, known bool) {
	k, known = a.events.get(a.hash(namespace, name))
	if at, ok := a.emptied[namespace]; ok && k.at <= at {
		return k, false
	}
	return k, known && !a.expired(now, k)
}

// has reports whether an Event with this name is stored.
func (a *apiServer) has(now time.Time, namespace, name string) bool {
	k, known := a.find(now, namespace, name)
	return known && !k.refused()
}

// get returns an Event by name and whether it is stored. The Event is nil if nothing is known about it.
func (a *apiServer) get(now time.Time, namespace, name string) (e *corev1.Event, isStored bool, err error) {
	k, known := a.find(now, namespace, name)
	if !known {
		return nil, false, nil
	}
	offset := k.offset
	if k.refused() {
		offset = ^offset
	}
	w, err := a.spool.read(offset)
	if err != nil {
		return nil, false, err
	}
	return w.event, !k.refused(), nil
}

// put stores e, or remembers that it was refused. w is the write that contained e, or nil for a write of the settler.
func (a *apiServer) put(now time.Time, w *write, e *corev1.Event, refused bool) error {
	offset, err := a.offset(w, e)
	if err != nil {
		return err
	}
	if refused {
		offset = ^offset
	}
	at := now.UnixNano()
	if emptied, ok := a.emptied[e.Namespace]; ok { // this write follows the deletion, even if its clock says otherwise
		at = max(at, emptied+1)
	}
	a.events.set(a.hash(e.Namespace, e.Name), location{at, offset}, func(k location) bool { return a.expired(now, k) })
	return nil
}

// offset returns the offset of e in the spool. It appends e unless w was read from the spool and contains e unchanged.
func (a *apiServer) offset(w *write, e *corev1.Event) (int64, error) {
	if w != nil && w.event == e && w.offset >= 0 {
		return w.offset, nil
	}
	return a.spool.append(&write{event: e})
}

func (a *apiServer) remove(namespace, name string) { a.events.remove(a.hash(namespace, name)) }

// removeAll removes all Events of a namespace at once. An API server deletes them one by one, and Events that are written meanwhile may go
// too.
func (a *apiServer) removeAll(now time.Time, namespace string) {
	at := now.UnixNano()
	if len(a.emptied) >= a.pruneAt {
		maps.DeleteFunc(a.emptied, func(_ string, emptied int64) bool { return at-emptied >= int64(a.ttl) })
		a.pruneAt = max(minPruned, 2*len(a.emptied))
	}
	a.emptied[namespace] = at
}

// apply returns the Event that results if the update or patch w is applied to old.
func (w *write) apply(old *corev1.Event) (*corev1.Event, error) {
	switch {
	case len(w.Patch) > 0:
		return patched(old, w.Patch)
	case w.Verb == patch:
		e := old.DeepCopy()
		if w.event.Series != nil && e.Series == nil {
			e.Series = &corev1.EventSeries{}
		}
		recount(e, admission.Occurrences(w.event), w.At)
		if w.event.Series == nil { // as client-go's core/v1 recorder does
			e.Message = w.event.Message
		}
		return e, nil
	}
	// write.of removed these annotations, as another webhook and settler made them.
	for _, name := range []string{admission.AnnotationMerged, admission.AnnotationMessages, admission.AnnotationCreateID} {
		if note, ok := old.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&w.event.ObjectMeta, name, note)
			w.offset = -1
		}
	}
	return w.event, nil
}

// before returns an Event as it was before its last occurrence.
func before(e *corev1.Event) *corev1.Event {
	old := e.DeepCopy()
	if n := admission.Occurrences(e); n > 1 {
		_, last := times(e)
		recount(old, n-1, last)
	}
	return old
}
