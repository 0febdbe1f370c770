package settler

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/store"
)

const (
	// ReasonDropped is the reason of notices that are not combined.
	ReasonDropped = store.ReasonDropped
	// AnnotationDropped is on every notice. It has the content of the message in full, as JSON: see droppedDetails.
	AnnotationDropped = "eventquota.io/dropped"
	// sourceComponent is the source of notices.
	sourceComponent = "eventquota"
)

// IsNotice reports whether e looks like a notice about drops: EventsDropped, or a combined one, which has the reason of the dropped
// Events. Anyone may write such an Event, so no decision depends on it. The settler's own writes never reach the webhook, as the
// webhook configuration excludes the settler's account.
func IsNotice(e *corev1.Event) bool {
	_, annotated := e.Annotations[AnnotationDropped]
	return e.Source.Component == sourceComponent && (e.Reason == ReasonDropped || annotated)
}

// newNotice returns the Event that reports what one bucket refused in one window; a combined notice reports those of one reason
// and type. It is in core/v1 without eventTime, so that LAST SEEN and COUNT of kubectl are those of the drops.
func newNotice(p *store.PendingWrite) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name,
			Annotations: map[string]string{AnnotationDropped: droppedAnnotation(p)},
		},
		InvolvedObject:      objectReference(aboutObject(p)),
		Reason:              ReasonDropped,
		Type:                corev1.EventTypeNormal,
		Message:             noticeMessage(p),
		Source:              corev1.EventSource{Component: sourceComponent},
		ReportingController: sourceComponent,
		Count:               clampCount(p.Total),
		FirstTimestamp:      metav1.NewTime(p.Notice.First),
		LastTimestamp:       metav1.NewTime(p.LastSeen),
	}
	if p.Notice.Warnings {
		e.Type = corev1.EventTypeWarning
	}
	if p.Notice.Reason != "" {
		e.Reason = text.Sanitize(p.Notice.Reason)
	}
	return e
}

// aboutObject returns the involved object of a notice. A combined notice in a namespace is about a workload if nearly all of its
// Events are about pods of that workload. Otherwise it is about the namespace, where tools look for Events of its reason.
func aboutObject(p *store.PendingWrite) store.Object {
	n := p.Notice
	aboutRule := strings.HasPrefix(n.InvolvedObject.APIVersion, v1alpha1.GroupName+"/")
	if n.Reason == "" || n.InvolvedObject.Namespace == "" || !aboutRule && n.InvolvedObject.Kind != "Namespace" {
		return n.InvolvedObject
	}
	if hasSingleWorkload(p) && n.Workload.Namespace == n.InvolvedObject.Namespace {
		return n.Workload
	}
	return store.Object{APIVersion: "v1", Kind: "Namespace", Namespace: n.InvolvedObject.Namespace, Name: n.InvolvedObject.Namespace}
}

// hasSingleWorkload reports whether only one workload is known, and at least nine in ten of the dropped Events are about its pods.
// A pod's first Events may come before its metadata is known, so the workload of a few is unknown.
func hasSingleWorkload(p *store.PendingWrite) bool {
	known := int64(0)
	for _, t := range p.Notice.Workloads {
		if t.Name != "" {
			known += t.Count
		}
	}
	return !p.Notice.Workload.IsZero() && known >= p.Total-p.Total/10
}

// objectReference returns a reference to o.
func objectReference(o store.Object) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: types.UID(o.UID),
	}
}

// droppedDetails is the content of AnnotationDropped. Maps have counts by name; an empty name stands for all others.
type droppedDetails struct {
	Total     int64            `json:"total"`
	Since     time.Time        `json:"since"`
	By        string           `json:"by,omitempty"` // what refused them
	Reasons   map[string]int64 `json:"reasons"`
	Sources   map[string]int64 `json:"sources"`
	Workloads map[string]int64 `json:"workloads,omitempty"`
	// Objects names the latest involved objects, and Involved is their number, which may be Estimated.
	Objects   []string `json:"objects"`
	Involved  int64    `json:"involved,omitempty"`
	Estimated bool     `json:"estimated,omitempty"`
	// NotInSink is the number of Events in Total that are not in the sink.
	NotInSink int64 `json:"notInSink,omitempty"`
}

func droppedAnnotation(p *store.PendingWrite) string {
	n := p.Notice
	details := droppedDetails{
		Total: p.Total, Since: n.First.UTC(), By: describeRefuser(n, maxAnnotationNameBytes), Reasons: countsByName(n.Reasons), Sources: countsByName(n.Sources),
		Objects: []string{}, Involved: n.ObjectCount.N, Estimated: n.ObjectCount.Estimated, NotInSink: n.NotInSink,
	}
	if n.WorkloadCount.N > 0 {
		details.Workloads = countsByName(n.Workloads)
	}
	for _, o := range n.Objects {
		details.Objects = append(details.Objects, text.Sanitize(o))
	}
	return mustMarshal(details)
}

func countsByName(all []store.Tally) map[string]int64 {
	counts := map[string]int64{}
	for _, t := range all {
		counts[text.Sanitize(t.Name)] += t.Count
	}
	return counts
}
