package settler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

const (
	// ReasonDropped is the reason of notices.
	ReasonDropped = "EventsDropped"
	// component is the source of notices.
	component = "eventquota"
	// noticeBytes is the longest message of a notice.
	noticeBytes = 1024
)

// notice is the Event that tells what was dropped of one source and object in
// one window: a Warning on the object that the dropped Events were about, its
// count the number of them.
func notice(d store.Debt) *corev1.Event {
	s := d.Notice.Subject
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: s.APIVersion, Kind: s.Kind, Namespace: s.Namespace,
			Name: s.Name, UID: types.UID(s.UID),
		},
		Reason:              ReasonDropped,
		Type:                corev1.EventTypeWarning,
		Message:             noticeMessage(d),
		Source:              corev1.EventSource{Component: component},
		ReportingController: component,
		Count:               clamp(d.Total),
		FirstTimestamp:      metav1.NewTime(d.First),
		LastTimestamp:       metav1.NewTime(d.Last),
	}
}

// noticeCounts is the merge patch that brings a notice up to date.
func noticeCounts(d store.Debt) map[string]any {
	return map[string]any{
		"count":         clamp(d.Total),
		"lastTimestamp": metav1.NewTime(d.Last.UTC()),
		"message":       noticeMessage(d),
	}
}

// noticeMessage says how many Events were dropped by reason, most first.
func noticeMessage(d store.Debt) string {
	s := d.Notice.Subject
	from := s.Component
	if s.Host != "" {
		from += " on " + s.Host
	}
	reasons := slices.Clone(d.Notice.Reasons)
	slices.SortStableFunc(reasons, func(a, b store.Tally) int { return int(b.Count - a.Count) })
	parts := make([]string, len(reasons))
	for i, r := range reasons {
		name := r.What
		if name == "" {
			name = "of other reasons"
		}
		parts[i] = fmt.Sprintf("%d %s", r.Count, admission.Truncate(name, 128))
	}
	return admission.Truncate(fmt.Sprintf("dropped %d Events from %s since %s: %s",
		d.Total, admission.Truncate(from, 256), d.First.UTC().Format(time.RFC3339), strings.Join(parts, ", ")), noticeBytes)
}
