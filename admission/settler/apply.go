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

// maxMessageBytes bounds each message in AnnotationMessages.
const maxMessageBytes = 1024

// Apply applies a pending write of a store to e. The write must not be a notice.
func Apply(p *store.PendingWrite, storeID string, e *corev1.Event) {
	count, last := clampCount(p.Total), p.LastSeen.UTC()
	if p.Series {
		e.Series = &corev1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(last.Truncate(time.Microsecond))}
	} else {
		e.Count, e.LastTimestamp = count, metav1.NewTime(last.Truncate(time.Second))
	}
	if p.Text != "" {
		e.Message = admission.AggregateMessage(p.Text, p.Series)
	}
	if len(p.Messages) > 0 {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, admission.AnnotationMessages, encodeMessages(p.Messages))
	}
	delete(e.Annotations, admission.AnnotationMerged)
	if merged := p.Merged(); merged != 0 {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, admission.AnnotationMerged, admission.FormatMerged(merged, int64(count), storeID))
	}
}

// patch returns a merge patch that has the effect of Apply on one version of a stored Event.
func patch(p *store.PendingWrite, storeID string) map[string]any {
	var e corev1.Event
	Apply(p, storeID, &e)
	annotations := map[string]any{admission.AnnotationMerged: nil}
	for name, value := range e.Annotations {
		annotations[name] = value
	}
	fields := map[string]any{"metadata": map[string]any{
		"annotations": annotations, "uid": p.UID, "resourceVersion": p.ResourceVersion,
	}}
	if e.Series != nil {
		fields["series"] = e.Series
	} else {
		fields["count"], fields["lastTimestamp"] = e.Count, e.LastTimestamp
	}
	if e.Message != "" {
		fields["message"] = e.Message
	}
	return fields
}

func encodeMessages(tallies []store.Tally) string {
	type message struct {
		Message string `json:"message"`
		Count   int64  `json:"count"`
	}
	list := make([]message, len(tallies))
	for i, t := range tallies {
		list[i] = message{admission.Truncate(t.Name, maxMessageBytes), t.Count}
	}
	return mustMarshal(list)
}

// mustMarshal encodes v as JSON. v has only strings, numbers and times, which never fail to encode.
func mustMarshal(v any) string {
	encoded, _ := json.Marshal(v)
	return string(encoded)
}

// clampCount limits n to the range of counts in the API.
func clampCount(n int64) int32 {
	return int32(min(n, math.MaxInt32))
}
