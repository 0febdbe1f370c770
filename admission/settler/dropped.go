package settler

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// DroppedOf tells of whom a notice says that Events were dropped: what
// noticeMessage wrote into it. It is not ok for an Event that is no notice, and for
// a source that was too long to be written. A source without a component is
// "unknown" there.
func DroppedOf(e *corev1.Event) (who Dropper, ok bool) {
	if e.Reason != ReasonDropped || e.Source.Component != component {
		return Dropper{}, false
	}
	_, rest, ok := strings.Cut(e.Message, " Events from ")
	from, _, found := strings.Cut(rest, " since "+e.FirstTimestamp.UTC().Format(time.RFC3339)+": ")
	if !ok || !found || strings.HasSuffix(from, " bytes)") {
		return Dropper{}, false
	}
	if i := strings.LastIndex(from, " on "); i >= 0 {
		return Dropper{from[:i], from[i+len(" on "):]}, true
	}
	return Dropper{Component: from}, true
}

// Dropper is the source of Events that were dropped.
type Dropper struct{ Component, Host string }
