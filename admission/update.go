package admission

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// isRecorders tells whether an UPDATE moves nothing but what a recorder moves
// when an Event repeats: count, series, timestamps and, with them, the message
// of an aggregate. Whatever else a write moves, a label or an annotation, would be
// lost if the write were merged. message is after's within its limit: recorders
// of core/v1 send the message with each PATCH, as they know it, whatever became
// of it when the Event was stored.
func isRecorders(before, after *corev1.Event, message string) bool {
	was, is := *before, *after
	if isAggregate(before) || was.Message == message {
		was.Message = is.Message
	}
	keep(&was)
	keep(&is)
	if !equality.Semantic.DeepEqual(was, is) {
		return false
	}
	return occurrences(before) != occurrences(after) ||
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
// names and were merged into it; less than 0 says how many that its recorder
// counts were told before the Event was stored. The settler writes it with the
// count; a webhook that has lost its memory reads it.
const AnnotationMerged = "eventquota.io/merged"

// AnnotationMessages lists the latest distinct messages of an aggregate and
// how often each came, as a JSON array of {"message", "count"}.
const AnnotationMessages = "eventquota.io/messages"

// mergedBefore reads AnnotationMerged. What is not a number up to the Event's
// own count says nothing.
func mergedBefore(e *corev1.Event) int64 {
	n, err := strconv.ParseInt(e.Annotations[AnnotationMerged], 10, 32)
	if err != nil || n > occurrences(e) {
		return 0
	}
	return n
}
