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

// Owed is what a stored Event is to say, once a debt is settled.
type Owed struct {
	// Total is its count, or that of its series if Series is set.
	Total  int32
	Series bool
	// Last is when it happened last.
	Last time.Time
	// Message replaces that of the Event, unless it is empty.
	Message string
	// Merged is its AnnotationMerged; empty for none.
	Merged string

	messages []store.Tally
}

// OwedTo is what the stored Event of a debt, which is no notice, is to say.
func OwedTo(d store.Debt) Owed {
	o := Owed{Total: clamp(d.Total), Series: d.Series, Last: d.Last.UTC(), messages: d.Messages}
	if d.Merged != 0 {
		o.Merged = admission.MergedNote(d.Merged, int64(o.Total))
	}
	if d.Text != "" {
		o.Message = admission.AggregateMessage(d.Text, d.Series)
	}
	return o
}

// patch is the merge patch that brings the stored Event up to date.
func (o Owed) patch() map[string]any {
	fields := map[string]any{}
	if o.Series {
		fields["series"] = map[string]any{"count": o.Total, "lastObservedTime": metav1.NewMicroTime(o.Last)}
	} else {
		fields["count"] = o.Total
		fields["lastTimestamp"] = metav1.NewTime(o.Last)
	}
	annotations := map[string]any{admission.AnnotationMerged: nil}
	if o.Merged != "" {
		annotations[admission.AnnotationMerged] = o.Merged
	}
	if o.Message != "" {
		fields["message"] = o.Message
	}
	if len(o.messages) > 0 {
		annotations[admission.AnnotationMessages] = messages(o.messages)
	}
	fields["metadata"] = map[string]any{"annotations": annotations}
	return fields
}

// Apply does to e what the patch does, but for AnnotationMessages, on which no
// decision depends.
func (o Owed) Apply(e *corev1.Event) {
	if o.Series {
		e.Series = &corev1.EventSeries{Count: o.Total, LastObservedTime: metav1.NewMicroTime(o.Last.Truncate(time.Microsecond))}
	} else {
		e.Count, e.LastTimestamp = o.Total, metav1.NewTime(o.Last.Truncate(time.Second))
	}
	if o.Message != "" {
		e.Message = o.Message
	}
	if o.Merged == "" {
		delete(e.Annotations, admission.AnnotationMerged)
		return
	}
	metav1.SetMetaDataAnnotation(&e.ObjectMeta, admission.AnnotationMerged, o.Merged)
}

// messages is the value of AnnotationMessages.
func messages(tallies []store.Tally) string {
	type message struct {
		Message string `json:"message"`
		Count   int64  `json:"count"`
	}
	list := make([]message, len(tallies))
	for i, t := range tallies {
		list[i] = message{admission.Truncate(t.What, messageBytes), t.Count}
	}
	text, _ := json.Marshal(list) // strings and numbers always encode
	return string(text)
}

// clamp is n as counts on the wire hold it.
func clamp(n int64) int32 {
	return int32(min(n, math.MaxInt32))
}
