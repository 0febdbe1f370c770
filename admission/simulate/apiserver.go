package simulate

import (
	"hash/maphash"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
)

// apiServer is what an API server would have stored, and what recorders have sent in vain: a recorder sends an Event
// again when it finds that it is not stored. The Events are in the spool; memory holds some 30 bytes of each live one.
type apiServer struct {
	spool  *spool
	events hashIndex
	seed   maphash.Seed
	ttl    time.Duration // of an Event after its last write
}

// location is where an Event is, and when it was written last.
type location struct {
	at     int64 // in nanoseconds of Unix time
	offset int64 // its complement if it was refused
}

func (k location) refused() bool { return k.offset < 0 }

func newAPIServer(s *spool, ttl time.Duration) *apiServer {
	return &apiServer{spool: s, seed: maphash.MakeSeed(), ttl: ttl}
}

func (a *apiServer) hash(namespace, name string) uint64 {
	return maphash.Comparable(a.seed, [...]string{namespace, name})
}

func (a *apiServer) expired(now time.Time, k location) bool {
	return now.UnixNano()-k.at >= int64(a.ttl)
}

// find returns where the Event of a name is.
func (a *apiServer) find(now time.Time, namespace, name string) (k location, known bool) {
	k, known = a.events.get(a.hash(namespace, name))
	return k, known && !a.expired(now, k)
}

// has reports whether the Event of a name is stored.
func (a *apiServer) has(now time.Time, namespace, name string) bool {
	k, known := a.find(now, namespace, name)
	return known && !k.refused()
}

// get returns the Event of a name, and whether it is stored; nil if nothing is known of it.
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

// put stores e, or remembers that it was refused. w is the write that brought it; nil for the settler's.
func (a *apiServer) put(now time.Time, w *write, e *corev1.Event, refused bool) error {
	offset, err := a.offset(w, e)
	if err != nil {
		return err
	}
	if refused {
		offset = ^offset
	}
	a.events.set(a.hash(e.Namespace, e.Name), location{now.UnixNano(), offset}, func(k location) bool { return a.expired(now, k) })
	return nil
}

// offset is where the spool has e: where w was read, if it brought e as it is, and else at the end.
func (a *apiServer) offset(w *write, e *corev1.Event) (int64, error) {
	if w != nil && w.event == e && w.offset >= 0 {
		return w.offset, nil
	}
	return a.spool.append(&write{event: e})
}

func (a *apiServer) remove(namespace, name string) { a.events.remove(a.hash(namespace, name)) }

// apply is what w, an update of some kind, makes of an Event.
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
		if w.event.Series == nil { // as client-go's recorder of core/v1 does
			e.Message = w.event.Message
		}
		return e, nil
	}
	// What another webhook and settler noted was taken from it.
	for _, name := range []string{admission.AnnotationMerged, admission.AnnotationMessages, admission.AnnotationCreateID} {
		if note, ok := old.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&w.event.ObjectMeta, name, note)
			w.offset = -1
		}
	}
	return w.event, nil
}

// before is an Event as it was before its last occurrence.
func before(e *corev1.Event) *corev1.Event {
	old := e.DeepCopy()
	if n := admission.Occurrences(e); n > 1 {
		_, last := times(e)
		recount(old, n-1, last)
	}
	return old
}
