package admission

import (
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/store"
)

// AnnotationMerged says how many of an Event's occurrences came under other
// names and were merged into it, as in "43 of 50"; less than 0 says how many
// that its recorder counts are reported elsewhere. The settler writes it with the
// count; a webhook that has lost its state reads it. A count that differs from the
// second number was overwritten by a recorder since. "43 of 50 by 7d0cf2a1" names the
// store of one replica, so that another which takes its place adds what it merged itself.
const AnnotationMerged = "eventquota.io/merged"

// AnnotationMessages lists the latest distinct messages of an aggregate and
// how often each came, as a JSON array of {"message", "count"}.
const AnnotationMessages = "eventquota.io/messages"

const (
	mergedNote = "%d of %d"
	mergedBy   = " by "
)

// MergedNote is the value of AnnotationMerged. A store that all replicas share has no ID.
func MergedNote(merged, total int64, storeID string) string {
	note := fmt.Sprintf(mergedNote, merged, total)
	if storeID != "" {
		note += mergedBy + storeID
	}
	return note
}

// StoredOf is what a stored Event says of its count to the store of an ID. A note
// that makes no sense says nothing.
func StoredOf(e *corev1.Event, storeID string) store.Stored {
	s := store.Stored{Count: occurrences(e)}
	note, ok := e.Annotations[AnnotationMerged]
	if !ok {
		return s
	}
	note, by, _ := strings.Cut(note, mergedBy)
	var merged, total int64
	if _, err := fmt.Sscanf(note, mergedNote, &merged, &total); err != nil ||
		merged > total || total > math.MaxInt32 || merged < -math.MaxInt32 {
		return s
	}
	s.Merged, s.Overwritten, s.Foreign = merged, total != s.Count, by != storeID
	return s
}

// Matches tells whether a stored Event is the one that a pending write is for. An
// aggregate goes by what is similar, whatever its message says by now.
func Matches(p *store.PendingWrite, e *corev1.Event) bool {
	var h store.Hasher
	object := objectKey(&h, e.Namespace, e)
	return object == p.Object &&
		(p.Key.IsZero() || p.Key == exactKey(&h, object, e, e.Message) || p.Key == similarKey(&h, object, e))
}

// isAggregate tells whether e combines similar Events.
func isAggregate(e *corev1.Event) bool { return strings.HasPrefix(e.Message, aggregatePrefix) }
