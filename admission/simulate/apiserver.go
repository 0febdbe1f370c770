package simulate

import (
	"bytes"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/lru"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

const (
	// maxRefused is how many refused Events are remembered, of those sent last. A recorder of client-go remembers 4,096.
	maxRefused = 1 << 14
	// minSweep is the least number of Events at which expired ones are removed.
	minSweep = 4096
)

// apiServer is what an API server would have stored. The Events are in the trace's temporary file; memory holds some 100
// bytes of each that has not expired.
type apiServer struct {
	spool  *spool // has what was sent, too
	ttl    time.Duration
	events map[store.Key]kept
	sweep  int // how many Events there are when expired ones are removed next
	// refused has offsets of Events by their names too: a recorder knows what it has sent, and sends it again when
	// it finds that it is not stored.
	refused *lru.Cache
	hasher  store.Hasher
	found   write // where get puts what it returns
}

// kept is where an Event is.
type kept struct {
	at     int64 // of the last write, in nanoseconds of Unix time
	offset int64
}

func newAPIServer(s *spool, ttl time.Duration) *apiServer {
	return &apiServer{spool: s, ttl: ttl, events: map[store.Key]kept{}, sweep: minSweep, refused: lru.New(maxRefused)}
}

func (a *apiServer) key(namespace, name string) store.Key { return a.hasher.Add(namespace, name).Sum() }

// get returns the Event of a name, and whether it was refused; nil if nothing is known of it. It is valid until the next
// call.
func (a *apiServer) get(now time.Time, namespace, name string) (e *corev1.Event, refused bool, err error) {
	key := a.key(namespace, name)
	offset := a.events[key].offset
	if !a.has(now, key) {
		var known any
		if known, refused = a.refused.Get(key); !refused {
			return nil, false, nil
		}
		offset, _ = known.(int64)
	}
	record, err := a.spool.read(offset)
	if err != nil {
		return nil, false, err
	}
	err = a.found.decode(record)
	return a.found.event, refused, err
}

// has reports whether an Event is stored.
func (a *apiServer) has(now time.Time, key store.Key) bool {
	k, known := a.events[key]
	return known && now.UnixNano()-k.at < int64(a.ttl)
}

// put stores e.
func (a *apiServer) put(now time.Time, e *corev1.Event) error {
	offset, err := a.keep(e)
	if err != nil {
		return err
	}
	key := a.key(e.Namespace, e.Name)
	a.refused.Remove(key)
	a.events[key] = kept{now.UnixNano(), offset}
	if len(a.events) < a.sweep {
		return nil
	}
	for key := range a.events {
		if !a.has(now, key) {
			delete(a.events, key)
		}
	}
	a.sweep = max(minSweep, 2*len(a.events))
	return nil
}

// refuse remembers that e was refused, which w wrote, unless an Event of its name is stored.
func (a *apiServer) refuse(now time.Time, w *write, e *corev1.Event) (err error) {
	key := a.key(e.Namespace, e.Name)
	if a.has(now, key) {
		return nil
	}
	// Of a stored Event the trace has the last count and time, which the recorder's next patch replaces anyway.
	offset := w.offset
	if w.Verb != create {
		if offset, err = a.keep(e); err != nil {
			return err
		}
	}
	a.refused.Add(key, offset)
	return nil
}

func (a *apiServer) keep(e *corev1.Event) (offset int64, err error) {
	record, err := (&write{event: e}).encode()
	if err != nil {
		return 0, err
	}
	return a.spool.append(record)
}

func (a *apiServer) remove(namespace, name string) { delete(a.events, a.key(namespace, name)) }

// apply is what w, an update of some kind, makes of an Event.
func (w *write) apply(old *corev1.Event) (*corev1.Event, error) {
	if w.Verb == patch {
		return patched(old, w.Patch, w.NewAPI)
	}
	if w.Verb == repeat {
		e := old.DeepCopy()
		if w.event.Series != nil && e.Series == nil {
			e.Series = &corev1.EventSeries{}
		}
		recount(e, occurrences(w.event), lastTime(w.event, w.at))
		return e, nil
	}
	// What another settler noted was taken from it.
	for _, name := range []string{admission.AnnotationMerged, admission.AnnotationMessages} {
		if note, ok := old.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&w.event.ObjectMeta, name, note)
		}
	}
	return w.event, nil
}

// patched is what a patch makes of an Event: a strategic merge patch, which is what recorders send, or a merge
// patch, which does the same to Events except for lists in their metadata.
func patched(old *corev1.Event, patch []byte, newAPI bool) (*corev1.Event, error) {
	e := old.DeepCopy()
	special := slices.ContainsFunc([]string{"null", `"$`, `"finalizers"`, `"ownerReferences"`}, func(s string) bool {
		return bytes.Contains(patch, []byte(s))
	})
	if !special && !newAPI {
		return e, decode(patch, e)
	}
	if !special { // all that may change in the newer API, where both name it alike
		return e, decode(patch, &struct {
			Metadata *metav1.ObjectMeta   `json:"metadata"`
			Series   **corev1.EventSeries `json:"series"`
		}{&e.ObjectMeta, &e.Series})
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Event{})
	if err != nil {
		return nil, err
	}
	e = &corev1.Event{}
	return e, decode(after, e)
}

// before is an Event as it was before its last occurrence.
func before(e *corev1.Event) *corev1.Event {
	old := e.DeepCopy()
	if n := occurrences(e); n > 1 {
		recount(old, n-1, lastTime(e, e.FirstTimestamp.Time))
	}
	return old
}
