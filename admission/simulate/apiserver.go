package simulate

import (
	"maps"
	"time"

	"github.com/go-json-experiment/json"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate/recording"
	"github.com/eventquota/eventquota/store"
)

// minSweep is the least number of Events at which expired ones are removed.
const minSweep = 4096

// apiServer is what an API server would have stored, and what recorders have sent in vain: a recorder sends an Event
// again when it finds that it is not stored. The Events are in the spool; memory holds some 100 bytes of each live one.
type apiServer struct {
	spool  *spool
	events map[store.Key]kept
	ttl    time.Duration // of an Event after its last write
	sweep  int           // how many Events there are when expired ones are removed next
	hasher store.Hasher
}

// kept is where an Event is.
type kept struct {
	place // of the last write

	refused bool
}

func newAPIServer(s *spool, ttl time.Duration) *apiServer {
	return &apiServer{spool: s, events: map[store.Key]kept{}, ttl: ttl, sweep: minSweep}
}

func (a *apiServer) expired(now time.Time, k kept) bool { return now.UnixNano()-k.at >= int64(a.ttl) }

// get returns the Event of a name, and whether it is stored; nil if nothing is known of it.
func (a *apiServer) get(now time.Time, namespace, name string) (e *corev1.Event, isStored bool, err error) {
	k, known := a.events[a.hasher.Add(namespace, name).Sum()]
	if !known || a.expired(now, k) {
		return nil, false, nil
	}
	w, err := a.spool.read(k.offset)
	if err != nil {
		return nil, false, err
	}
	return w.event, !k.refused, nil
}

// put stores e, or remembers that it was refused.
func (a *apiServer) put(now time.Time, e *corev1.Event, refused bool) error {
	offset, err := a.spool.append(&write{event: e})
	if err != nil {
		return err
	}
	a.events[a.hasher.Add(e.Namespace, e.Name).Sum()] = kept{place{now.UnixNano(), offset}, refused}
	if len(a.events) >= a.sweep {
		maps.DeleteFunc(a.events, func(_ store.Key, k kept) bool { return a.expired(now, k) })
		a.sweep = max(minSweep, 2*len(a.events))
	}
	return nil
}

func (a *apiServer) remove(namespace, name string) {
	delete(a.events, a.hasher.Add(namespace, name).Sum())
}

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
		}
	}
	return w.event, nil
}

// patched is what a patch makes of an Event: a strategic merge patch, which is what recorders send, or a merge patch,
// which does the same to Events except for lists in their metadata. What may change has the same name in both APIs.
func patched(old *corev1.Event, patch []byte) (*corev1.Event, error) {
	before, err := json.Marshal(old, recording.Lenient())
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, old)
	if err != nil {
		return nil, err
	}
	return decodeEvent(after, false)
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
