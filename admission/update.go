package admission

import (
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
	was, is := *before, *after
	if isAggregate(before) || was.Message == message {
		was.Message = is.Message
	}
	keep(&was)
	keep(&is)
	if !equality.Semantic.DeepEqual(was, is) {
		return false
	}
	return r.Options.FieldManager == "" && equality.Semantic.DeepEqual(before, after) ||
		occurrences(before) != occurrences(after) ||
		!equality.Semantic.DeepEqual(before.Series, after.Series) ||
		!before.FirstTimestamp.Equal(&after.FirstTimestamp) ||
		!before.LastTimestamp.Equal(&after.LastTimestamp)
}

// undoes tells whether a recorder's UPDATE would put back a message that was
// cut or combined when the Event was stored. Only its count is wanted.
func undoes(before, after *corev1.Event, message string) bool {
	if before.Message == after.Message {
		return false
	}
	return message != after.Message || isAggregate(before) && !isAggregate(after)
}

// isAggregate tells whether e combines similar Events.
func isAggregate(e *corev1.Event) bool { return strings.HasPrefix(e.Message, aggregatePrefix) }

// keep blanks what a recorder moves and what the API server moves with it.
func keep(e *corev1.Event) {
	e.Count, e.Series = 0, nil
	e.FirstTimestamp, e.LastTimestamp = metav1.Time{}, metav1.Time{}
	e.ManagedFields, e.ResourceVersion, e.Generation = nil, "", 0
}

// AnnotationMerged says how many of an Event's occurrences came under other
// names and were merged into it, as in "43 of 50"; less than 0 says how many
// that its recorder counts were told before the Event was stored. The settler
// writes it with the count; a webhook that has lost its memory reads it. A
// count that differs from the second number was overwritten by a recorder that
// the webhook has not seen.
const AnnotationMerged = "eventquota.io/merged"

// MergedNote is the value of AnnotationMerged.
func MergedNote(merged, total int64) string { return fmt.Sprintf(mergedNote, merged, total) }

const mergedNote = "%d of %d"

// AnnotationMessages lists the latest distinct messages of an aggregate and
// how often each came, as a JSON array of {"message", "count"}.
const AnnotationMessages = "eventquota.io/messages"

// mergedBefore reads AnnotationMerged of an Event, and tells whether its count
// was overwritten since. A note that makes no sense says nothing.
func mergedBefore(e *corev1.Event) (merged int64, overwritten bool) {
	var total int64
	note := e.Annotations[AnnotationMerged]
	if _, err := fmt.Sscanf(note, mergedNote, &merged, &total); err != nil ||
		merged > total || total > math.MaxInt32 || merged < -math.MaxInt32 {
		return 0, false
	}
	return merged, total != occurrences(e)
}
