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

// buildUpdate returns the store's description of an UPDATE.
func (q *evaluation) buildUpdate(h *store.Hasher) store.Update {
	u := store.Update{
		ByRecorder:     isRecorderUpdate(q.Request, q.message),
		RevertsMessage: revertsMessage(q.OldObject, q.Object, q.message),
		UID:            string(q.OldObject.UID),
		Stored:         ReadStored(q.OldObject, q.storeID),
	}
	if u.ByRecorder {
		// The key covers all fields that a recorder changes: it identifies the write when the API server calls again after a
		// conflict.
		u.ContentKey = q.contentKey(h.Add("update", q.Object.Name, q.message), repeatFields(q.Object))
	} else {
		u.ContentKey = q.contentUpdateKey(h)
	}
	return u
}

// isRecorderUpdate reports whether an UPDATE changes only fields that a recorder changes when an Event repeats: count,
// series, timestamps and, with them, the message of a combined Event. Any other change, such as a label or an annotation,
// would be lost if the write were merged. message is the Event's message, cut to its limit: recorders of core/v1 send
// their original message with each PATCH, even if the stored one was cut or combined.
//
// An UPDATE that changes nothing, or restores the message of a combined Event, is also a recorder's, unless it has a field
// manager, as kubectl's writes do. Other recorders may have raised the stored count to the same value within the same second.
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

// repeatFields returns the fields of e that a recorder changes when an Event repeats.
func repeatFields(e *corev1.Event) *corev1.Event {
	return &corev1.Event{Count: e.Count, Series: e.Series, FirstTimestamp: e.FirstTimestamp, LastTimestamp: e.LastTimestamp}
}

// equalAsStored compares Events in their stored form, protobuf, which does not distinguish empty from absent lists and maps.
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

// clearRepeatFields clears the fields that a recorder changes, and those that the API server changes with them.
func clearRepeatFields(e *corev1.Event) {
	e.Count, e.Series = 0, nil
	e.FirstTimestamp, e.LastTimestamp = metav1.Time{}, metav1.Time{}
	clearVersionFields(e)
}

// clearVersionFields clears the fields that the API server changes with every write.
func clearVersionFields(e *corev1.Event) {
	e.ManagedFields, e.ResourceVersion, e.Generation = nil, "", 0
}

// revertsMessage reports whether a recorder's UPDATE would restore a message that was cut or combined at the CREATE.
func revertsMessage(before, after *corev1.Event, message string) bool {
	return before.Message != after.Message && (message != after.Message || isAggregate(before) && !isAggregate(after))
}

// contentUpdateKey returns the key of an UPDATE that is not a recorder's. It has the whole content and the version that it
// replaces: otherwise two users who alternate between two contents would take a token only once each.
func (r *Request) contentUpdateKey(h *store.Hasher) store.Key {
	e := *r.Object
	clearVersionFields(&e)
	return r.contentKey(h.Add("content", r.OldObject.ResourceVersion), &e)
}

// contentKey adds the whole content of e to h and returns the key.
func (r *Request) contentKey(h *store.Hasher, e *corev1.Event) store.Key {
	content := r.scratch(e.Size())
	if _, err := e.MarshalToSizedBuffer(content); err != nil { // the zero key matches no other write
		h.Sum()
		return store.Key{}
	}
	return h.Add(string(content)).Sum()
}

// scratchBytes is enough for the stored form of both Events of most UPDATEs.
const scratchBytes = 1024

// scratch returns n bytes of memory, which the next call reuses.
func (r *Request) scratch(n int) []byte {
	if len(r.scratchBuffer) < n {
		r.scratchBuffer = make([]byte, max(n, scratchBytes))
	}
	return r.scratchBuffer[:n]
}

// AnnotationMerged has the number of occurrences that came under other names and were merged into the Event, as in "43 of
// 50". A negative number means that other Events report so many of the occurrences that its recorder counts. The settler
// writes it with the count, and a webhook that has lost its state reads it. If the Event's count differs from the second
// number, a recorder has overwritten the count since. "43 of 50 by 7d0cf2a1" names the store of one replica, so that a
// replica that replaces it adds the occurrences that it merges itself.
const AnnotationMerged = "eventquota.io/merged"

// AnnotationMessages lists the latest distinct messages of a combined Event and
// how often each came, as a JSON array of {"message", "count"}.
const AnnotationMessages = "eventquota.io/messages"

// AnnotationCreateID is set on an Event by its CREATE, so that the settler can tell whether this CREATE was stored. Its
// value is a random number, such as "1c7f03d2a6be9458". Events that others may be merged into have it, unless their writer is known to be
// allowed to patch Events.
const AnnotationCreateID = "eventquota.io/create-id"

const (
	mergedFormat  = "%d of %d"
	mergedByInfix = " by "
)

// FormatMerged returns the value of AnnotationMerged. A store that all replicas share has an empty ID.
func FormatMerged(merged, total int64, storeID string) string {
	value := fmt.Sprintf(mergedFormat, merged, total)
	if storeID != "" {
		value += mergedByInfix + storeID
	}
	return value
}

// ReadStored reads the count and AnnotationMerged of a stored Event, for the store with an ID. It ignores an invalid
// annotation.
func ReadStored(e *corev1.Event, storeID string) store.Stored {
	s := store.Stored{Count: Occurrences(e), Stamp: stamp(e)}
	value, ok := e.Annotations[AnnotationMerged]
	if !ok {
		return s
	}
	counts, by, _ := strings.Cut(value, mergedByInfix)
	var merged, total int64
	if _, err := fmt.Sscanf(counts, mergedFormat, &merged, &total); err != nil ||
		merged > total || total > math.MaxInt32 || merged < -math.MaxInt32 {
		return s
	}
	s.Merged, s.Overwritten, s.ByOtherStore = merged, total != s.Count, by != storeID
	return s
}

// MatchesPending reports whether e is the stored Event of a pending write whose uid is unknown. It compares
// AnnotationCreateID or, if neither has one, the content. A combined Event also matches by the key of similar Events,
// because its message changes.
func MatchesPending(p *store.PendingWrite, e *corev1.Event) bool {
	if createID := e.Annotations[AnnotationCreateID]; p.CreateID != 0 || createID != "" {
		return p.CreateID != 0 && createID == formatCreateID(p.CreateID)
	}
	var h store.Hasher
	object := objectKey(&h, e.Namespace, e)
	return object == p.ObjectKey &&
		(p.Key.IsZero() || p.Key == exactKey(&h, object, e, e.Message) || p.Key == similarKey(&h, object, e))
}

func isAggregate(e *corev1.Event) bool { return strings.HasPrefix(e.Message, aggregatePrefix) }
