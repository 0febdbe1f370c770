package admission

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/store"
)

// buildUpdate is what an UPDATE adds to a write.
func (q *evaluation) buildUpdate(h *store.Hasher) store.Update {
	u := store.Update{
		ByRecorder:     isRecorderUpdate(q.Request, q.message),
		RevertsMessage: revertsMessage(q.OldObject, q.Object, q.message),
		UID:            string(q.OldObject.UID),
		Stored:         ReadStored(q.OldObject, q.storeID),
	}
	if u.ByRecorder {
		// By all that a recorder moves, as the API server asks again after a conflict.
		u.ContentKey = q.contentKey(h.Add("update", q.Object.Name, q.message), repeatFields(q.Object))
	} else {
		u.ContentKey = q.contentUpdateKey(h)
	}
	return u
}

// isRecorderUpdate reports whether an UPDATE moves nothing but what a recorder moves when an Event repeats: count, series,
// timestamps and, with them, the message of an aggregate. Whatever else a write moves, a label or an annotation, would
// be lost if the write were merged. message is the Event's within its limit: recorders of core/v1 send the message with
// each PATCH, as they know it, whatever became of it when the Event was stored.
//
// One that moves nothing, or puts the message of an aggregate back, is a recorder's too: others may have brought the
// stored count to just what this one has come to, within one second. kubectl has not.
func isRecorderUpdate(r *Request, message string) bool {
	before, after := r.OldObject, r.Object
	was, is := *before, *after
	if isAggregate(before) || was.Message == message {
		was.Message = is.Message
	}
	if r.equalAsStored(repeatFields(before), repeatFields(after)) {
		return r.Options.FieldManager == "" && r.equalAsStored(&was, &is)
	}
	clearRepeatFields(&was)
	clearRepeatFields(&is)
	return r.equalAsStored(&was, &is)
}

// repeatFields is what a recorder moves when an Event repeats.
func repeatFields(e *corev1.Event) *corev1.Event {
	return &corev1.Event{Count: e.Count, Series: e.Series, FirstTimestamp: e.FirstTimestamp, LastTimestamp: e.LastTimestamp}
}

// equalAsStored compares Events as they are stored: their protobuf has an empty list or map as none.
func (r *Request) equalAsStored(a, b *corev1.Event) bool {
	n := a.Size()
	if n != b.Size() {
		return false
	}
	both := r.scratch(2 * n)
	if _, err := a.MarshalToSizedBuffer(both[:n]); err != nil {
		return false
	}
	_, err := b.MarshalToSizedBuffer(both[n:])
	return err == nil && bytes.Equal(both[:n], both[n:])
}

// clearRepeatFields blanks what a recorder moves and what the API server moves with it.
func clearRepeatFields(e *corev1.Event) {
	e.Count, e.Series = 0, nil
	e.FirstTimestamp, e.LastTimestamp = metav1.Time{}, metav1.Time{}
	clearVersionFields(e)
}

// clearVersionFields blanks what the API server moves with every write.
func clearVersionFields(e *corev1.Event) {
	e.ManagedFields, e.ResourceVersion, e.Generation = nil, "", 0
}

// revertsMessage reports whether a recorder's UPDATE would put back a message that was cut or combined at the CREATE.
func revertsMessage(before, after *corev1.Event, message string) bool {
	return before.Message != after.Message && (message != after.Message || isAggregate(before) && !isAggregate(after))
}

// contentUpdateKey names an UPDATE that is no recorder's by the whole content and the version that it replaces:
// otherwise two users who alternately write one thing each would pay only once.
func (r *Request) contentUpdateKey(h *store.Hasher) store.Key {
	e := *r.Object
	clearVersionFields(&e)
	return r.contentKey(h.Add("content", r.OldObject.ResourceVersion), &e)
}

// contentKey is the key of what h has and of all that an Event says.
func (r *Request) contentKey(h *store.Hasher, e *corev1.Event) store.Key {
	content := r.scratch(e.Size())
	if _, err := e.MarshalToSizedBuffer(content); err != nil { // then it is no repeat of anything
		h.Sum()
		return store.Key{}
	}
	return h.Add(string(content)).Sum()
}

// scratchBytes fits both Events of most UPDATEs, as they are stored.
const scratchBytes = 1024

// scratch is memory of n bytes that the next call uses again.
func (r *Request) scratch(n int) []byte {
	if len(r.scratchBuffer) < n {
		r.scratchBuffer = make([]byte, max(n, scratchBytes))
	}
	return r.scratchBuffer[:n]
}

// AnnotationMerged says how many of an Event's occurrences came under other names and were merged into it, as in "43 of
// 50"; less than 0 says how many that its recorder counts are reported elsewhere. The settler writes it with the count;
// a webhook that has lost its state reads it. A count that differs from the second number was overwritten by a recorder
// since. "43 of 50 by 7d0cf2a1" names the store of one replica, so that another which takes its place adds what it
// merged itself.
const AnnotationMerged = "eventquota.io/merged"

// AnnotationMessages lists the latest distinct messages of an aggregate and
// how often each came, as a JSON array of {"message", "count"}.
const AnnotationMessages = "eventquota.io/messages"

// AnnotationCreateID is noted on an Event by its CREATE, so that the settler knows what became of that: "1c7f03d2a6be9458"
// is a random number. It is on Events that others may be merged into, but for those of nodes and of the control plane.
const AnnotationCreateID = "eventquota.io/create-id"

const (
	mergedFormat  = "%d of %d"
	mergedByInfix = " by "
)

// FormatMerged is the value of AnnotationMerged. A store that all replicas share has no ID.
func FormatMerged(merged, total int64, storeID string) string {
	note := fmt.Sprintf(mergedFormat, merged, total)
	if storeID != "" {
		note += mergedByInfix + storeID
	}
	return note
}

// ReadStored reads the count of a stored Event for the store of an ID. An invalid note is ignored.
func ReadStored(e *corev1.Event, storeID string) store.Stored {
	s := store.Stored{Count: Occurrences(e)}
	note, ok := e.Annotations[AnnotationMerged]
	if !ok {
		return s
	}
	note, by, _ := strings.Cut(note, mergedByInfix)
	var merged, total int64
	if _, err := fmt.Sscanf(note, mergedFormat, &merged, &total); err != nil ||
		merged > total || total > math.MaxInt32 || merged < -math.MaxInt32 {
		return s
	}
	s.Merged, s.Overwritten, s.ByOtherStore = merged, total != s.Count, by != storeID
	return s
}

// MatchesPending reports whether a stored Event is the one that a pending write is for, whose uid is not known: by what its
// CREATE noted on it and, if that noted nothing, by its content. An aggregate goes by what is similar, whatever its
// message says by now.
func MatchesPending(p *store.PendingWrite, e *corev1.Event) bool {
	if noted := e.Annotations[AnnotationCreateID]; p.CreateID != 0 || noted != "" {
		return p.CreateID != 0 && noted == formatCreateID(p.CreateID)
	}
	var h store.Hasher
	object := objectKey(&h, e.Namespace, e)
	return object == p.ObjectKey &&
		(p.Key.IsZero() || p.Key == exactKey(&h, object, e, e.Message) || p.Key == similarKey(&h, object, e))
}

func isAggregate(e *corev1.Event) bool { return strings.HasPrefix(e.Message, aggregatePrefix) }
