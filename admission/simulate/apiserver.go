package simulate

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

const (
	// maxRefused is how many refused Events are remembered at most, and half of it how many of those sent last at
	// least. A recorder of client-go remembers 4,096.
	maxRefused = 1 << 15
	// minSweep is the least number of Events at which expired ones are removed.
	minSweep = 4096
)

// apiServer is what an API server would have stored. The Events are in a temporary file; memory holds some 100
// bytes of each that has not expired.
type apiServer struct {
	trace  view // what was sent
	spool  *spool
	ttl    time.Duration
	events map[store.Key]kept
	sweep  int // how many Events there are when expired ones are removed next
	// refused has Events by their names too: a recorder knows what it has sent, and sends it again when it finds
	// that it is not stored.
	refused recent
	hasher  store.Hasher
	found   write // where get puts what it returns
	buffer  []byte
}

// kept is where an Event is.
type kept struct {
	at     int64 // of the last write, in nanoseconds of Unix time
	offset int64
	sent   bool // in the trace, as it was sent
}

func newAPIServer(t *Trace, ttl time.Duration) (*apiServer, error) {
	s, err := newSpool(t.dir)
	if err != nil {
		return nil, err
	}
	return &apiServer{
		trace: t.spool.viewed(spoolGlance), spool: s, ttl: ttl,
		events: map[store.Key]kept{}, sweep: minSweep,
	}, nil
}

func (a *apiServer) key(namespace, name string) store.Key { return a.hasher.Add(namespace, name).Sum() }

// get returns the Event of a name, and whether it was refused; nil if nothing is known of it. It is valid until the next
// call.
func (a *apiServer) get(now time.Time, namespace, name string) (e *corev1.Event, refused bool, err error) {
	key := a.key(namespace, name)
	k := a.events[key]
	if !a.has(now, key) {
		if k, refused = a.refused.get(key); !refused {
			return nil, false, nil
		}
	}
	read := a.spool.read
	if k.sent {
		read = a.trace.read
	}
	record, err := read(k.offset)
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
	a.refused.remove(key)
	a.events[key] = kept{now.UnixNano(), offset, false}
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
	offset, sent := w.offset, w.Verb == create
	if !sent {
		if offset, err = a.keep(e); err != nil {
			return err
		}
	}
	a.refused.add(key, kept{now.UnixNano(), offset, sent})
	return nil
}

func (a *apiServer) keep(e *corev1.Event) (offset int64, err error) {
	w := write{event: e}
	if a.buffer, err = w.encode(a.buffer[:0]); err != nil {
		return 0, err
	}
	return a.spool.append(a.buffer)
}

func (a *apiServer) remove(namespace, name string) { delete(a.events, a.key(namespace, name)) }

// recent keeps what was added or asked for not long ago: when now has half of maxRefused, it becomes before, and what
// was in that is forgotten. Unlike an LRU cache it has no pointers, which a garbage collector would follow. The zero
// value is ready.
type recent struct{ now, before map[store.Key]kept }

func (r *recent) add(key store.Key, k kept) {
	if r.now == nil || len(r.now) >= maxRefused/2 {
		r.now, r.before = make(map[store.Key]kept, len(r.now)), r.now
	}
	r.now[key] = k
}

func (r *recent) get(key store.Key) (kept, bool) {
	k, known := r.now[key]
	if known {
		return k, true
	}
	if k, known = r.before[key]; known {
		r.add(key, k)
	}
	return k, known
}

func (r *recent) remove(key store.Key) {
	delete(r.now, key)
	delete(r.before, key)
}

// apply is what w, an update of some kind, makes of an Event.
func (w *write) apply(old *corev1.Event) (*corev1.Event, error) {
	if w.Verb == patch {
		return patched(old, w.patch, w.NewAPI)
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
func patched(old *corev1.Event, patch string, newAPI bool) (*corev1.Event, error) {
	e := old.DeepCopy()
	special := strings.Contains(patch, "null") || strings.Contains(patch, `"$`) || strings.Contains(patch, `"finalizers"`) ||
		strings.Contains(patch, `"ownerReferences"`)
	if !special && !newAPI {
		return e, decode([]byte(patch), e)
	}
	if !special { // all that may change in the newer API, where both name it alike
		return e, decode([]byte(patch), &struct {
			Metadata *metav1.ObjectMeta   `json:"metadata"`
			Series   **corev1.EventSeries `json:"series"`
		}{&e.ObjectMeta, &e.Series})
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, []byte(patch), corev1.Event{})
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
