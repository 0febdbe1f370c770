package simulate

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/store"
)

// apiServer is what an API server would have stored. The Events are in a
// temporary file; memory holds some 100 bytes of each that has not expired.
type apiServer struct {
	sent   cursor
	spool  *spool
	ttl    time.Duration
	events map[store.Key]kept
	sweep  int // how many Events there are when expired ones are removed next
	// refused are kept by their names too: a recorder knows what it has sent, and
	// sends it again when it finds it gone.
	refused recent
	buffer  []byte
	hasher  store.Hasher
}

// kept is an Event.
type kept struct {
	span

	at int64 // of the last write, in nanoseconds of Unix time
	// sent tells that span is of the trace: it is what a write says.
	sent bool
}

const minSweep = 4096

func newAPIServer(t *Trace, ttl time.Duration) (*apiServer, error) {
	s, err := newSpool(t.dir)
	if err != nil {
		return nil, err
	}
	return &apiServer{sent: t.cursor(spoolGlance), spool: s, ttl: ttl, events: map[store.Key]kept{}, sweep: minSweep}, nil
}

func (a *apiServer) key(namespace, name string) store.Key {
	return a.hasher.Add(namespace, name).Sum()
}

// get returns the Event of a name, and whether it was refused; nil if nothing
// is known of it.
func (a *apiServer) get(now time.Time, namespace, name string) (e *corev1.Event, refused bool, err error) {
	key := a.key(namespace, name)
	k := a.events[key]
	if !a.knows(now, key) {
		if k, refused = a.refused.get(key); !refused {
			return nil, false, nil
		}
	}
	if k.sent {
		var w write
		err := a.sent.at(k.span, &w)
		return w.event, refused, err
	}
	b, err := a.spool.read(k.span)
	if err != nil {
		return nil, false, err
	}
	e = &corev1.Event{}
	return e, refused, e.Unmarshal(b)
}

// knows tells whether an Event is stored.
func (a *apiServer) knows(now time.Time, key store.Key) bool {
	k, known := a.events[key]
	return known && now.UnixNano()-k.at < int64(a.ttl)
}

// has tells whether an Event is stored.
func (a *apiServer) has(now time.Time, namespace, name string) bool {
	return a.knows(now, a.key(namespace, name))
}

// put stores e.
func (a *apiServer) put(now time.Time, e *corev1.Event) error {
	k, err := a.keep(now, e)
	if err != nil {
		return err
	}
	name := a.key(e.Namespace, e.Name)
	a.refused.remove(name)
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

// refuse remembers that e was refused, which w wrote, unless there is an Event of
// its name.
func (a *apiServer) refuse(now time.Time, w *write, e *corev1.Event) error {
	name := a.key(e.Namespace, e.Name)
	if a.knows(now, name) {
		return nil
	}
	k := kept{w.span, now.UnixNano(), true}
	if w.span == 0 || w.verb != create || w.event != e || w.name == "" {
		var err error
		if k, err = a.keep(now, e); err != nil {
			return err
		}
	}
	a.refused.add(name, k)
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

func (a *apiServer) remove(namespace, name string) { delete(a.events, a.key(namespace, name)) }
