package simulate

import (
	"bytes"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/lru"

	"github.com/eventquota/eventquota/store"
)

// apiServer is what an API server would have stored. The Events are in a
// temporary file; memory holds some 100 bytes of each that has not expired.
type apiServer struct {
	trace  *Trace
	spool  *spool
	ttl    time.Duration
	events map[store.Key]kept
	sweep  int // how many Events there are when expired ones are removed next
	// refused are kept by their names too: a recorder knows what it has sent, and
	// sends it again when it finds it gone.
	refused *lru.Cache
	buffer  []byte
}

// kept is an Event.
type kept struct {
	span

	at int64 // of the last write, in nanoseconds of Unix time
	// sent tells that span is of the trace: it is what a write says.
	sent bool
}

const (
	minSweep = 4096
	// maxRefused is how many refused Events are remembered, those sent last. A
	// recorder of client-go remembers 4,096.
	maxRefused = 1 << 14
)

func newAPIServer(t *Trace, ttl time.Duration) (*apiServer, error) {
	s, err := newSpool(t.dir)
	if err != nil {
		return nil, err
	}
	return &apiServer{trace: t, spool: s, ttl: ttl, events: map[store.Key]kept{}, sweep: minSweep, refused: lru.New(maxRefused)}, nil
}

func key(namespace, name string) store.Key {
	var h store.Hasher
	return h.Add(namespace, name).Sum()
}

// get returns the Event of a name, and whether it was refused; nil if nothing
// is known of it.
func (a *apiServer) get(now time.Time, namespace, name string) (e *corev1.Event, refused bool, err error) {
	k, known := a.find(now, namespace, name)
	if !known {
		if k, refused = a.wasRefused(namespace, name); !refused {
			return nil, false, nil
		}
	}
	if k.sent {
		w, err := a.trace.at(k.span)
		if err != nil {
			return nil, false, err
		}
		return w.event, refused, nil
	}
	b, err := a.spool.read(k.span)
	if err != nil {
		return nil, false, err
	}
	e = &corev1.Event{}
	return e, refused, e.Unmarshal(b)
}

func (a *apiServer) find(now time.Time, namespace, name string) (kept, bool) {
	k, known := a.events[key(namespace, name)]
	return k, known && now.UnixNano()-k.at < int64(a.ttl)
}

func (a *apiServer) wasRefused(namespace, name string) (kept, bool) {
	v, known := a.refused.Get(key(namespace, name))
	k, ok := v.(kept)
	return k, known && ok
}

// has tells whether an Event is stored.
func (a *apiServer) has(now time.Time, namespace, name string) bool {
	_, known := a.find(now, namespace, name)
	return known
}

// put stores e.
func (a *apiServer) put(now time.Time, e *corev1.Event) error {
	k, err := a.keep(now, e)
	if err != nil {
		return err
	}
	name := key(e.Namespace, e.Name)
	a.refused.Remove(name)
	a.events[name] = k
	if len(a.events) < a.sweep {
		return nil
	}
	for name, k := range a.events {
		if now.UnixNano()-k.at >= int64(a.ttl) {
			delete(a.events, name)
		}
	}
	a.sweep = max(minSweep, 2*len(a.events))
	return nil
}

// refuse remembers that e was refused, which w wrote.
func (a *apiServer) refuse(now time.Time, w *write, e *corev1.Event) error {
	k := kept{w.span, now.UnixNano(), true}
	if w.span.size == 0 || w.verb != create || w.event != e || w.name == "" {
		var err error
		if k, err = a.keep(now, e); err != nil {
			return err
		}
	}
	a.refused.Add(key(e.Namespace, e.Name), k)
	return nil
}

func (a *apiServer) keep(now time.Time, e *corev1.Event) (kept, error) {
	size := e.Size()
	if cap(a.buffer) < size {
		a.buffer = make([]byte, 2*size)
	}
	n, err := e.MarshalTo(a.buffer[:size])
	if err != nil {
		return kept{}, fmt.Errorf("encode Event: %w", err)
	}
	at, err := a.spool.append(a.buffer[:n])
	return kept{at, now.UnixNano(), false}, err
}

func (a *apiServer) remove(namespace, name string) { delete(a.events, key(namespace, name)) }

// patched is what a patch makes of an Event: a strategic merge patch, which is
// what recorders send, or a merge patch, which does the same to Events but for
// lists in their metadata.
func patched(old *corev1.Event, patch []byte, newAPI bool) (*corev1.Event, error) {
	e := old.DeepCopy()
	special := bytes.Contains(patch, []byte("null")) || bytes.Contains(patch, []byte(`"$`)) || bytes.Contains(patch, []byte(`"finalizers"`)) ||
		bytes.Contains(patch, []byte(`"ownerReferences"`))
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
