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

// errKeepsChanging says that an Event changed after each read.
var errKeepsChanging = errors.New("changes all the time")

// claimedWrite is a pending write in hand. One worker at a time works on it.
type claimedWrite struct {
	store.PendingWrite
	// storeID names the store that it is of.
	storeID string
	// stored is what the Event said before, for the store. noted is Noted before it was read, and others
	// are those of its occurrences that the store did not know of and did not write.
	stored              store.Stored
	notedBefore, others int64
	// responses is how many requests the API server had answered at the last failure, and failures
	// how many of those count.
	responses int64
	failures  int
	// outcome is set once known, until the store has it.
	outcome *store.Outcome
}

// send writes w. An Event is read before its first write, and again when it has changed since, so
// that nothing is written into another one and no count is lowered. The error is set unless the
// result is Written, Read, NotFound or NameTaken.
func (s *Settler) send(ctx context.Context, w *claimedWrite) (store.Outcome, error) {
	events := s.events.Events(w.Namespace)
	if w.Notice != nil && w.UID == "" {
		e, err := s.doRequest(ctx, func(ctx context.Context) (*corev1.Event, error) {
			return events.Create(ctx, newNotice(&w.PendingWrite), metav1.CreateOptions{})
		})
		switch {
		case apierrors.IsNotFound(err): // its namespace
			return store.Outcome{Result: store.GivenUp}, err
		case !apierrors.IsAlreadyExists(err):
			return w.outcomeOf(e, err)
		}
	}
	for range maxReads {
		if w.UID == "" || w.ResourceVersion == "" {
			e, err := s.doRequest(ctx, func(ctx context.Context) (*corev1.Event, error) {
				return events.Get(ctx, w.Name, metav1.GetOptions{})
			})
			switch {
			case err != nil:
				return w.outcomeOf(nil, err)
			case !w.matches(e):
				return store.Outcome{Result: store.NameTaken}, nil
			case w.Partial: // the store adds what it says, once
				stored := admission.ReadStored(e, w.storeID)
				return store.Outcome{Result: store.Read, UID: string(e.UID), ResourceVersion: e.ResourceVersion, Stored: stored}, nil
			}
			w.adoptCounts(e)
			if w.Notice != nil && e.Count >= clampCount(w.Total) && reportsMissing(e, w.Notice) {
				return w.outcomeOf(e, nil) // another settler has written as much, or more
			}
		}
		body, err := json.Marshal(w.patch())
		if err != nil {
			return store.Outcome{Result: store.Failed}, fmt.Errorf("encode patch: %w", err)
		}
		e, err := s.doRequest(ctx, func(ctx context.Context) (*corev1.Event, error) {
			return events.Patch(ctx, w.Name, types.MergePatchType, body, metav1.PatchOptions{})
		})
		if !isConflict(err) {
			return w.outcomeOf(e, err)
		}
		w.ResourceVersion = ""
	}
	return store.Outcome{Result: store.Failed}, errKeepsChanging
}

// outcomeOf is the outcome of a request about an Event, which is as the API server has it now.
func (w *claimedWrite) outcomeOf(e *corev1.Event, err error) (store.Outcome, error) {
	o := store.Outcome{Result: resultFor(err)}
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

// matches reports whether e is the Event that was admitted, or the notice that was created before. The name of a notice cannot
// be guessed.
func (w *claimedWrite) matches(e *corev1.Event) bool {
	switch {
	case w.UID != "":
		return types.UID(w.UID) == e.UID
	case w.Notice != nil:
		return IsNotice(e) && (w.Notice.Reason != "" || e.InvolvedObject == objectReference(w.Notice.InvolvedObject))
	}
	return admission.MatchesPending(&w.PendingWrite, e)
}

// adoptCounts takes over the counts of the Event that was read.
func (w *claimedWrite) adoptCounts(e *corev1.Event) {
	w.UID, w.ResourceVersion = string(e.UID), e.ResourceVersion
	if w.Notice != nil {
		w.stored = store.Stored{Count: int64(e.Count)}
		return
	}
	before := w.Occurrences
	w.stored = admission.ReadStored(e, w.storeID)
	w.Written = w.stored.Count
	w.Adopt(w.stored)
	if w.stored.ByOtherStore {
		w.others += w.Merged() - before.Merged()
	}
	if w.others != 0 {
		// The store adds them to what it has merged, so what a try before may have written of that must not be in it.
		noted := w.notedBefore + w.others
		w.stored = store.Stored{Count: w.Own + noted, Merged: noted, ByOtherStore: true}
	}
}

// patch is a merge patch of one version of the Event.
func (w *claimedWrite) patch() any {
	if w.Notice != nil {
		return w.noticePatch()
	}
	return patch(&w.PendingWrite, w.storeID)
}

// noticePatch is all of a notice. What it is about may have changed, and then a uid that it has no more must go.
func (w *claimedWrite) noticePatch() any {
	e := newNotice(&w.PendingWrite)
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
