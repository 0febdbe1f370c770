package simulate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
)

// do carries out one write, when its time has come.
func (r *run) do(ctx context.Context, w *write) error {
	if err := r.advance(ctx, w.at, w.late); err != nil {
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
		// A recorder whose Event is not found creates it, with the count so far.
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
