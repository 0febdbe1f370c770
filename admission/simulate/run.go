package simulate

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// Options say what a Trace is run under.
type Options struct {
	// Policies are in force all the time.
	Policies *policy.Set
	// StoreBytes is the memory of the store, as of one replica without Redis. At
	// least store.MinBytes.
	StoreBytes int64
	// LocalRate is how many Events a second are admitted without a decision, at
	// least 1, and SettleRate how many writes a second settle, at least 1.
	LocalRate, SettleRate int
	// EventTTL is how long the API server keeps an Event after its last write.
	// More than 0.
	EventTTL time.Duration
	// Decided is told of every write, in order. Nil for nobody.
	Decided func(Decision)
	// Progress is told now and then how many writes of how many are done. Nil
	// for nobody.
	Progress func(done, of int64)
}

// DefaultOptions are what serve does by default, with an API server's default
// of how long it keeps Events.
func DefaultOptions(policies *policy.Set) Options {
	return Options{Policies: policies, StoreBytes: store.DefaultBytes, LocalRate: 100, SettleRate: 100, EventTTL: time.Hour}
}

// run is a Trace being run.
type run struct {
	opts   Options
	trace  *Trace
	gate   *admission.Gate
	store  *store.Memory
	audit  *store.Memory
	api    *apiServer
	result *Result
	// now is the clock, settled is when the settler looked last.
	now, settled time.Time
}

// progressEvery is how many writes there are from one progress to the next.
const progressEvery = 4096

// Run decides all writes. What it returns depends on nothing but the trace and
// o, but for the names of Events that ask for a generated one. It fails where
// the temporary files do, or when ctx ends.
func (t *Trace) Run(ctx context.Context, o Options) (*Result, error) {
	r := &run{opts: o, trace: t, result: newResult()}
	var err error
	if r.store, err = store.NewMemory(o.StoreBytes); err != nil {
		return nil, err
	}
	if r.audit, err = store.NewMemory(store.AuditBytes); err != nil {
		return nil, err
	}
	if r.api, err = newAPIServer(t, o.EventTTL); err != nil {
		return nil, err
	}
	defer r.api.spool.close()
	r.gate = &admission.Gate{
		Policies:   admission.Current(func() *policy.Set { return o.Policies }),
		Store:      r.store,
		Audit:      r.audit,
		Told:       r.result.told,
		Now:        func() time.Time { return r.now },
		Local:      rate.NewLimiter(rate.Limit(o.LocalRate), o.LocalRate),
		Complaints: &rate.Sometimes{First: 1},
	}
	if err := r.all(logr.NewContext(ctx, logr.Discard())); err != nil {
		return nil, err
	}
	r.result.finish()
	return r.result, nil
}

// all carries out all writes, and settles what is owed then.
func (r *run) all(ctx context.Context) error {
	writes, of := replay{trace: r.trace}, r.trace.Input.Writes
	progress := func(done int64) {
		if r.opts.Progress != nil {
			r.opts.Progress(done, of)
		}
	}
	for done := int64(0); ; done++ {
		if done%progressEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			progress(done)
		}
		w, err := writes.write()
		if err != nil {
			return err
		}
		if w == nil {
			break
		}
		if err := r.do(ctx, w); err != nil {
			return err
		}
	}
	progress(of)
	return r.drain(ctx)
}

// do carries out one write, when its time has come.
func (r *run) do(ctx context.Context, w *write) error {
	if err := r.advance(ctx, w.at); err != nil {
		return err
	}
	switch w.verb {
	case remove:
		r.api.remove(w.namespace, w.name)
		return nil
	case create, stored:
		return r.create(ctx, w, w.event)
	case update, patch, repeat:
	}
	old, refused, err := r.api.get(r.now, w.namespace, w.name)
	if err != nil {
		return err
	}
	after := w.event
	switch {
	case old == nil && after == nil:
		r.decided(w, nil, Unknown, "")
		return nil
	case old == nil:
		// It was created before the input begins.
		old = before(after)
	case w.verb == patch:
		if after, err = patched(old, w.patch, w.newAPI); err != nil {
			r.decided(w, old, Unknown, "patch: "+err.Error())
			return nil //nolint:nilerr // it is counted
		}
	case w.verb == repeat:
		_, last, _ := times(after)
		n := occurrences(after)
		repeated := old.DeepCopy()
		if after.Series != nil && repeated.Series == nil {
			repeated.Series = &corev1.EventSeries{}
		}
		recount(repeated, n, last)
		after = repeated
	default:
		keepNotes(old, after)
	}
	if refused {
		// A recorder that finds its Event gone creates it, with the count so far.
		return r.create(ctx, w, after)
	}
	return r.update(ctx, w, old, after)
}

// keepNotes gives an Event that replaces another what the settler has noted on
// that: asSent took from it what another settler did.
func keepNotes(old, e *corev1.Event) {
	for _, name := range []string{admission.AnnotationMerged, admission.AnnotationMessages} {
		if note, ok := old.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&e.ObjectMeta, name, note)
		}
	}
}

// before is an Event as it was before its last occurrence.
func before(e *corev1.Event) *corev1.Event {
	old := e.DeepCopy()
	if n := occurrences(e); n > 1 {
		_, last, _ := times(e)
		recount(old, n-1, last)
	}
	return old
}
