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
	// AnnotationDropped is on every notice. It has in full, as JSON, what the message says in one line: see details.
	AnnotationDropped = "eventquota.io/dropped"
	// sourceComponent is the source of notices.
	sourceComponent = "eventquota"
)

// IsNotice reports whether e says that it is a notice about drops: EventsDropped, or a combined one, which has the reason of
// what was dropped. Anyone may write such an Event, so nothing is decided by it. The settler's own writes never reach the
// webhook: its configuration leaves out the settler's account.
func IsNotice(e *corev1.Event) bool {
	_, noted := e.Annotations[AnnotationDropped]
	return e.Source.Component == sourceComponent && (e.Reason == ReasonDropped || noted)
}

// newNotice is the Event that reports what one bucket refused in one window, or if it is combined, of one reason and type. It is
// of core/v1 without eventTime: LAST SEEN and COUNT of kubectl are those of the drops.
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

// aboutObject is what a notice is about. A combined one of a namespace is about the workload if all but a few of the Events were about
// pods of only one, and else about the namespace, where tools look for Events of its reason.
func aboutObject(p *store.PendingWrite) store.Object {
	n := p.Notice
	ofRule := strings.HasPrefix(n.InvolvedObject.APIVersion, v1alpha1.GroupName+"/")
	if n.Reason == "" || n.InvolvedObject.Namespace == "" || !ofRule && n.InvolvedObject.Kind != "Namespace" {
		return n.InvolvedObject
	}
	if hasSingleWorkload(p) && n.Workload.Namespace == n.InvolvedObject.Namespace {
		return n.Workload
	}
	return store.Object{APIVersion: "v1", Kind: "Namespace", Namespace: n.InvolvedObject.Namespace, Name: n.InvolvedObject.Namespace}
}

// hasSingleWorkload reports whether only one workload is known of the dropped Events, and is that of at least nine in ten of them. A pod's first
// Events may come before it is seen, so those of a few are not known.
func hasSingleWorkload(p *store.PendingWrite) bool {
	known := int64(0)
	for _, t := range p.Notice.Workloads {
		if t.Name != "" {
			known += t.Count
		}
	}
	return !p.Notice.Workload.IsZero() && known >= p.Total-p.Total/10
}

// objectReference is what a notice about o refers to.
func objectReference(o store.Object) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: types.UID(o.UID),
	}
}

// droppedDetails are what AnnotationDropped has. Names are counted; an empty one is all others.
type droppedDetails struct {
	Total     int64            `json:"total"`
	Since     time.Time        `json:"since"`
	By        string           `json:"by,omitempty"` // what refused them
	Reasons   map[string]int64 `json:"reasons"`
	Sources   map[string]int64 `json:"sources"`
	Workloads map[string]int64 `json:"workloads,omitempty"`
	// Objects are the latest, and Involved is how many there were, which Estimated says is not exact.
	Objects   []string `json:"objects"`
	Involved  int64    `json:"involved,omitempty"`
	Estimated bool     `json:"estimated,omitempty"`
	// NotInSink is how many of Total are not in the sink.
	NotInSink int64 `json:"notInSink,omitempty"`
}

func droppedAnnotation(p *store.PendingWrite) string {
	n := p.Notice
	all := droppedDetails{
		Total: p.Total, Since: n.First.UTC(), By: describeRefuser(n, maxAnnotationNameBytes), Reasons: countsByName(n.Reasons), Sources: countsByName(n.Sources),
		Objects: []string{}, Involved: n.ObjectCount.N, Estimated: n.ObjectCount.Estimated, NotInSink: n.NotInSink,
	}
	if n.WorkloadCount.N > 0 {
		all.Workloads = countsByName(n.Workloads)
	}
	for _, o := range n.Objects {
		all.Objects = append(all.Objects, text.Sanitize(o))
	}
	return mustMarshal(all)
}

func countsByName(all []store.Tally) map[string]int64 {
	counts := map[string]int64{}
	for _, t := range all {
		counts[text.Sanitize(t.Name)] += t.Count
	}
	return counts
}
