package admission

import (
	"bytes"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/store"
)

// update is what an UPDATE adds to a write.
func (q *question) update(h *store.Hasher) store.Update {
	u := store.Update{
		Recorder: isRecorders(q.Request, q.message),
		Reverts:  reverts(q.OldObject, q.Object, q.message),
		UID:      string(q.OldObject.UID),
		Stored:   StoredOf(q.OldObject, q.storeID),
	}
	if u.Recorder {
		u.Same = sameRepeat(h, q.Object, q.message)
	} else {
		u.Same = sameContent(h, q.Request)
	}
	return u
}

// isRecorders tells whether an UPDATE moves nothing but what a recorder moves
// when an Event repeats: count, series, timestamps and, with them, the message
// of an aggregate. Whatever else a write moves, a label or an annotation, would be
// lost if the write were merged. message is the Event's within its limit:
// recorders of core/v1 send the message with each PATCH, as they know it, whatever
// became of it when the Event was stored.
//
// One that moves nothing is a recorder's too: others may have brought the stored
// count to just what this one has come to, within one second. kubectl has not.
func isRecorders(r *Request, message string) bool {
	before, after := r.OldObject, r.Object
	if occurrences(before) == occurrences(after) && sameSeries(before.Series, after.Series) &&
		before.FirstTimestamp.Equal(&after.FirstTimestamp) && before.LastTimestamp.Equal(&after.LastTimestamp) {
		return r.Options.FieldManager == "" && r.managersMoved == 0 && same(before, after)
	}
	was, is := *before, *after
	if isAggregate(before) || was.Message == message {
		was.Message = is.Message
	}
	blankRepeat(&was)
	blankRepeat(&is)
	return same(&was, &is)
}

func sameSeries(a, b *corev1.EventSeries) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Count == b.Count && a.LastObservedTime.Equal(&b.LastObservedTime)
}

// same tells whether two Events are stored as the same. Their protobuf has every field, in
// a fixed order, and an empty list or map as none.
func same(a, b *corev1.Event) bool {
	n := a.Size()
	if n != b.Size() {
		return false
	}
	both := make([]byte, 2*n)
	if _, err := a.MarshalToSizedBuffer(both[:n]); err != nil {
		return false
	}
	_, err := b.MarshalToSizedBuffer(both[n:])
	return err == nil && bytes.Equal(both[:n], both[n:])
}

// blankRepeat blanks what a recorder moves and what the API server moves with it.
func blankRepeat(e *corev1.Event) {
	e.Count, e.Series = 0, nil
	e.FirstTimestamp, e.LastTimestamp = metav1.Time{}, metav1.Time{}
	blankVersion(e)
}

// blankVersion blanks what the API server moves with every write.
func blankVersion(e *corev1.Event) {
	e.ManagedFields, e.ResourceVersion, e.Generation = nil, "", 0
}

// reverts tells whether a recorder's UPDATE would put back a message that was
// cut or combined when the Event was stored. Only its count is wanted.
func reverts(before, after *corev1.Event, message string) bool {
	if before.Message == after.Message {
		return false
	}
	return message != after.Message || isAggregate(before) && !isAggregate(after)
}

// sameRepeat names a recorder's UPDATE by all that a recorder moves. The API server
// asks again about one that met a conflict, when the stored Event is another.
func sameRepeat(h *store.Hasher, e *corev1.Event, message string) store.Key {
	h.Add("update", e.Name, strconv.Itoa(int(e.Count)), message)
	addTime(h, e.FirstTimestamp.Time)
	addTime(h, e.LastTimestamp.Time)
	if s := e.Series; s != nil {
		h.Add(strconv.Itoa(int(s.Count)))
		addTime(h, s.LastObservedTime.Time)
	}
	return h.Sum()
}

func addTime(h *store.Hasher, t time.Time) {
	var text [len(time.RFC3339Nano)]byte
	h.Add(string(t.UTC().AppendFormat(text[:0], time.RFC3339Nano)))
}

// sameContent names any other UPDATE by the whole content and the version that it
// replaces: if the content alone counted, two users who take turns at writing one
// thing each would pay once.
func sameContent(h *store.Hasher, r *Request) store.Key {
	e := *r.Object
	blankVersion(&e)
	content, err := e.Marshal()
	if err != nil {
		return store.Key{} // then it is no repeat of anything
	}
	return h.Add("content", r.OldObject.ResourceVersion, string(content)).Sum()
}
