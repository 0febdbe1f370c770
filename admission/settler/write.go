package settler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// maxReads is how often one try reads an Event that changes at the same time.
const maxReads = 4

// errChanging says that an Event changed after each read.
var errChanging = errors.New("changes all the time")

// write is a pending write in hand. One worker at a time works on it.
type write struct {
	store.PendingWrite
	// storeID names the store that it is of.
	storeID string
	// stored is what the Event said before, for the store. noted is Noted before it was read, and others
	// are those of its occurrences that the store did not know of and did not write.
	stored        store.Stored
	noted, others int64
	// answers is how many requests the API server had answered at the last failure, and failures
	// how many of those count.
	answers  int64
	failures int
	// outcome is set once known, until the store has it.
	outcome *store.Outcome
}

// send writes w. An Event is read before its first write, and again when it has changed since, so
// that nothing is written into another one and no count is lowered. The error is set unless the
// result is Written, Read, NotFound or NameTaken.
func (s *Settler) send(ctx context.Context, w *write) (store.Outcome, error) {
	events := s.events.Events(w.Namespace)
	if w.Notice != nil && w.UID == "" {
		e, err := s.call(ctx, func(ctx context.Context) (*corev1.Event, error) {
			return events.Create(ctx, notice(&w.PendingWrite), metav1.CreateOptions{})
		})
		switch {
		case apierrors.IsNotFound(err): // its namespace
			return store.Outcome{Result: store.GivenUp}, err
		case !apierrors.IsAlreadyExists(err):
			return w.answered(e, err)
		}
	}
	for range maxReads {
		if w.UID == "" || w.ResourceVersion == "" {
			e, err := s.call(ctx, func(ctx context.Context) (*corev1.Event, error) {
				return events.Get(ctx, w.Name, metav1.GetOptions{})
			})
			switch {
			case err != nil:
				return w.answered(nil, err)
			case !w.is(e):
				return store.Outcome{Result: store.NameTaken}, nil
			case w.Partial: // the store adds what it says, once
				stored := admission.StoredOf(e, w.storeID)
				return store.Outcome{Result: store.Read, UID: string(e.UID), ResourceVersion: e.ResourceVersion, Stored: stored}, nil
			}
			w.adopt(e)
			if w.Notice != nil && e.Count >= clamp(w.Total) && saysMissing(e, w.Notice) {
				return w.answered(e, nil) // another settler has written as much, or more
			}
		}
		body, err := json.Marshal(w.patch())
		if err != nil {
			return store.Outcome{Result: store.Failed}, fmt.Errorf("encode patch: %w", err)
		}
		e, err := s.call(ctx, func(ctx context.Context) (*corev1.Event, error) {
			return events.Patch(ctx, w.Name, types.MergePatchType, body, metav1.PatchOptions{})
		})
		if !changed(err) {
			return w.answered(e, err)
		}
		w.ResourceVersion = ""
	}
	return store.Outcome{Result: store.Failed}, errChanging
}

// answered is the outcome of a request about an Event, which is as the API server has it now.
func (w *write) answered(e *corev1.Event, err error) (store.Outcome, error) {
	o := store.Outcome{Result: resultOf(err)}
	switch o.Result {
	case store.Written:
		o.UID, o.ResourceVersion, o.Stored = string(e.UID), e.ResourceVersion, w.stored
		return o, nil
	case store.NotFound:
		return o, nil
	case store.Rejected:
		if w.Notice != nil {
			o.Result = store.GivenUp // no other notice reports it
		}
	case store.NameTaken, store.Failed, store.GivenUp, store.Read:
	}
	return o, err
}

// is reports whether e is the Event that was admitted, or the notice that was created before. The name of a notice cannot
// be guessed.
func (w *write) is(e *corev1.Event) bool {
	switch {
	case w.UID != "":
		return types.UID(w.UID) == e.UID
	case w.Notice != nil:
		return IsNotice(e) && (w.Notice.Reason != "" || e.InvolvedObject == reference(w.Notice.About))
	}
	return admission.Matches(&w.PendingWrite, e)
}

// adopt takes over the counts of the Event that was read.
func (w *write) adopt(e *corev1.Event) {
	w.UID, w.ResourceVersion = string(e.UID), e.ResourceVersion
	if w.Notice != nil {
		w.stored = store.Stored{Count: int64(e.Count)}
		return
	}
	before := w.Occurrences
	w.stored = admission.StoredOf(e, w.storeID)
	w.Written = w.stored.Count
	w.Adopt(w.stored)
	if w.stored.Foreign {
		w.others += w.Merged() - before.Merged()
	}
	if w.others != 0 {
		// The store adds them to what it has merged, so what a try before may have written of that must not be in it.
		noted := w.noted + w.others
		w.stored = store.Stored{Count: w.Own + noted, Merged: noted, Foreign: true}
	}
}

// patch is a merge patch of one version of the Event.
func (w *write) patch() any {
	if w.Notice != nil {
		return w.noticePatch()
	}
	return patch(&w.PendingWrite, w.storeID)
}

// noticePatch is all of a notice. What it is about may have changed, and then a uid that it has no more must go.
func (w *write) noticePatch() any {
	e := notice(&w.PendingWrite)
	e.UID, e.ResourceVersion = types.UID(w.UID), w.ResourceVersion
	if w.Notice.Reason == "" || e.InvolvedObject.UID != "" {
		return e
	}
	fields := e.InvolvedObject
	return struct {
		*corev1.Event

		InvolvedObject map[string]any `json:"involvedObject"`
	}{e, map[string]any{
		"apiVersion": fields.APIVersion, "kind": fields.Kind, "namespace": fields.Namespace, "name": fields.Name, "uid": nil,
	}}
}
