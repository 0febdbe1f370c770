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

// Apply makes e say what a pending write of a store is to say, which is no notice.
func Apply(p *store.PendingWrite, storeID string, e *corev1.Event) {
	count, last := clamp(p.Total), p.Last.UTC()
	if p.Series {
		e.Series = &corev1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(last.Truncate(time.Microsecond))}
	} else {
		e.Count, e.LastTimestamp = count, metav1.NewTime(last.Truncate(time.Second))
	}
	if p.Text != "" {
		e.Message = admission.AggregateMessage(p.Text, p.Series)
	}
	if len(p.Messages) > 0 {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, admission.AnnotationMessages, messages(p.Messages))
	}
	delete(e.Annotations, admission.AnnotationMerged)
	if merged := p.Merged(); merged != 0 {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, admission.AnnotationMerged, admission.MergedNote(merged, int64(count), storeID))
	}
}

// patch is a merge patch that does to one version of a stored Event what Apply does.
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
