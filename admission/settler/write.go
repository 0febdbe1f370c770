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

// maxReads bounds how often one attempt reads an Event that others change at the same time.
const maxReads = 4

// errKeepsChanging says that an Event changed after each read.
var errKeepsChanging = errors.New("the Event changed after each read")

// claimedWrite is a claimed pending write. Only one worker at a time uses it.
type claimedWrite struct {
	store.PendingWrite
	// storeID identifies its store.
	storeID string
	// stored has the counts of the Event before the write, for the store. annotatedBefore is Annotated before the Event was read,
	// and others is the number of its occurrences that the store neither knew nor wrote.
	stored                  store.Stored
	annotatedBefore, others int64
	// responses is the Settler's responses at the last failure, and failures is how many failures count.
	responses int64
	failures  int
	// outcome is set once it is known, until the store has accepted it.
	outcome *store.Outcome
}

// send makes the write. It reads an Event before its first write, and again if it has changed since, so that it never writes into
// another Event or lowers a count. The error is set unless the result is Written, Read, NotFound or NameTaken.
func (s *Settler) send(ctx context.Context, w *claimedWrite) (store.Outcome, error) {
	events := s.events.Events(w.Namespace)
	if w.Notice != nil && w.UID == "" {
		e, err := s.doRequest(ctx, func(ctx context.Context) (*corev1.Event, error) {
			return events.Create(ctx, newNotice(&w.PendingWrite), metav1.CreateOptions{})
		})
		switch {
		case apierrors.IsNotFound(err): // the namespace does not exist
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
			case w.Partial: // the store adds its counts, once
				stored := admission.ReadStored(e, w.storeID)
				return store.Outcome{Result: store.Read, UID: string(e.UID), ResourceVersion: e.ResourceVersion, Stored: stored}, nil
			}
			w.adoptCounts(e)
			if w.Notice != nil && e.Count >= clampCount(w.Total) && reportsMissing(e, w.Notice) {
				return w.outcomeOf(e, nil) // another settler has written the same count or a higher one
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

// outcomeOf returns the outcome of a request. e is the Event as the API server has it now.
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
			o.Result = store.GivenUp // no notice reports a notice
		}
	case store.NameTaken, store.Failed, store.GivenUp, store.Read:
	}
	return o, err
}

// matches reports whether e is the admitted Event, or the notice created before. Nobody can guess the name of a notice.
func (w *claimedWrite) matches(e *corev1.Event) bool {
	switch {
	case w.UID != "":
		return types.UID(w.UID) == e.UID
	case w.Notice != nil:
		return IsNotice(e) && (w.Notice.Reason != "" || e.InvolvedObject == objectReference(w.Notice.InvolvedObject))
	}
	return admission.MatchesPending(&w.PendingWrite, e)
}

// adoptCounts takes over the counts of an Event that was read.
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
		// The store adds these to what it has merged, so they must not include what an earlier attempt may have written of that.
		merged := w.annotatedBefore + w.others
		w.stored = store.Stored{Count: w.Own + merged, Merged: merged, ByOtherStore: true}
	}
}

// patch returns a merge patch for one version of the Event.
func (w *claimedWrite) patch() any {
	if w.Notice != nil {
		return w.noticePatch()
	}
	return patch(&w.PendingWrite, w.storeID)
}

// noticePatch returns a patch with the whole notice. Its involved object may have changed to one without a uid; the patch then
// removes the old uid.
func (w *claimedWrite) noticePatch() any {
	e := newNotice(&w.PendingWrite)
	e.UID, e.ResourceVersion = types.UID(w.UID), w.ResourceVersion
	if w.Notice.Reason == "" || e.InvolvedObject.UID != "" {
		return e
	}
	o := e.InvolvedObject
	return struct {
		*corev1.Event

		InvolvedObject map[string]any `json:"involvedObject"`
	}{e, map[string]any{
		"apiVersion": o.APIVersion, "kind": o.Kind, "namespace": o.Namespace, "name": o.Name, "uid": nil,
	}}
}
