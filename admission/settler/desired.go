package settler

import (
	"encoding/json"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// messageBytes is the longest message kept in AnnotationMessages.
const messageBytes = 1024

// Desired is what a stored Event is to say of its occurrences.
type Desired struct {
	// Count is how many there are, in series.count if Series is set.
	Count  int32
	Series bool
	// Last is when it happened last.
	Last time.Time
	// Message replaces that of the Event, unless it is empty.
	Message string
	// Merged is its AnnotationMerged; empty for none.
	Merged string
	// Messages are its AnnotationMessages; empty to leave them alone.
	Messages string
}

// DesiredOf is what the stored Event of a pending write of a store, which is no notice, is to say.
func DesiredOf(p *store.PendingWrite, storeID string) Desired {
	d := Desired{Count: clamp(p.Total), Series: p.Series, Last: p.Last.UTC()}
	if merged := p.Merged(); merged != 0 {
		d.Merged = admission.MergedNote(merged, int64(d.Count), storeID)
	}
	if p.Text != "" {
		d.Message = admission.AggregateMessage(p.Text, p.Series)
	}
	if len(p.Messages) > 0 {
		d.Messages = messages(p.Messages)
	}
	return d
}

// Patch is a merge patch for the stored Event.
func (d Desired) Patch() map[string]any {
	fields := map[string]any{}
	if d.Series {
		fields["series"] = map[string]any{"count": d.Count, "lastObservedTime": metav1.NewMicroTime(d.Last)}
	} else {
		fields["count"] = d.Count
		fields["lastTimestamp"] = metav1.NewTime(d.Last)
	}
	annotations := map[string]any{admission.AnnotationMerged: nil}
	if d.Merged != "" {
		annotations[admission.AnnotationMerged] = d.Merged
	}
	if d.Message != "" {
		fields["message"] = d.Message
	}
	if d.Messages != "" {
		annotations[admission.AnnotationMessages] = d.Messages
	}
	fields["metadata"] = map[string]any{"annotations": annotations}
	return fields
}

// Apply does to e what Patch does, to the precision of its times.
func (d Desired) Apply(e *corev1.Event) {
	if d.Series {
		e.Series = &corev1.EventSeries{Count: d.Count, LastObservedTime: metav1.NewMicroTime(d.Last.Truncate(time.Microsecond))}
	} else {
		e.Count, e.LastTimestamp = d.Count, metav1.NewTime(d.Last.Truncate(time.Second))
	}
	if d.Message != "" {
		e.Message = d.Message
	}
	if d.Messages != "" {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, admission.AnnotationMessages, d.Messages)
	}
	if d.Merged == "" {
		delete(e.Annotations, admission.AnnotationMerged)
		return
	}
	metav1.SetMetaDataAnnotation(&e.ObjectMeta, admission.AnnotationMerged, d.Merged)
}

func messages(tallies []store.Tally) string {
	type message struct {
		Message string `json:"message"`
		Count   int64  `json:"count"`
	}
	list := make([]message, len(tallies))
	for i, t := range tallies {
		list[i] = message{admission.Truncate(t.What, messageBytes), t.Count}
	}
	return encoded(list)
}

// encoded is v, of strings, numbers and times only, as JSON.
func encoded(v any) string {
	text, _ := json.Marshal(v) // such values always encode
	return string(text)
}

// clamp limits n to the counts of the API.
func clamp(n int64) int32 {
	return int32(min(n, math.MaxInt32))
}
