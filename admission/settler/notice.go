package settler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/store"
)

const (
	// ReasonDropped is the reason of notices.
	ReasonDropped = "EventsDropped"
	// AnnotationDropped has in full, as JSON, what the message of a notice says: "total", "since",
	// the counts of "reasons" and "sources" by name (an empty one for all others), the latest "objects", and how many of the
	// total are "notInSink".
	AnnotationDropped = "eventquota.io/dropped"
	// component is the source of notices.
	component = "eventquota"
)

// IsNotice reports whether e is a notice about drops.
func IsNotice(e *corev1.Event) bool {
	return e.Reason == ReasonDropped && e.Source.Component == component
}

// notice is the Event that reports what one bucket refused in one window: of core/v1 without
// eventTime, which would bound its message to 1,024 bytes.
func notice(p *store.PendingWrite) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name,
			Annotations: map[string]string{AnnotationDropped: dropped(p)},
		},
		InvolvedObject:      reference(p.Notice.About),
		Reason:              ReasonDropped,
		Type:                corev1.EventTypeNormal,
		Message:             noticeMessage(p),
		Source:              corev1.EventSource{Component: component},
		ReportingController: component,
		Count:               clamp(p.Total),
		FirstTimestamp:      metav1.NewTime(p.Notice.First),
		LastTimestamp:       metav1.NewTime(p.Last),
	}
	if p.Notice.Warnings {
		e.Type = corev1.EventTypeWarning
	}
	return e
}

// reference is what a notice about o refers to.
func reference(o store.Object) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: types.UID(o.UID),
	}
}

func dropped(p *store.PendingWrite) string {
	all := struct {
		Total   int64            `json:"total"`
		Since   time.Time        `json:"since"`
		Reasons map[string]int64 `json:"reasons"`
		Sources map[string]int64 `json:"sources"`
		Objects []string         `json:"objects"`
		// NotInSink is how many of Total are not in the sink.
		NotInSink int64 `json:"notInSink,omitempty"`
	}{p.Total, p.Notice.First.UTC(), byName(p.Notice.Reasons), byName(p.Notice.Sources), []string{}, p.Notice.Missing}
	for _, o := range p.Notice.Objects {
		all.Objects = append(all.Objects, text.Visible(o))
	}
	return encoded(all)
}

func byName(all []store.Tally) map[string]int64 {
	counts := map[string]int64{}
	for _, t := range all {
		counts[text.Visible(t.What)] += t.Count
	}
	return counts
}

const (
	// noticeBytes is the longest message of a notice, and nameBytes the longest name in it.
	noticeBytes = 1024
	nameBytes   = 128
)

// noticeMessage is what a notice says in one line: how many Events since when, which bucket refused
// them, and which they were.
func noticeMessage(p *store.PendingWrite) string {
	n := p.Notice
	says := fmt.Sprintf("%s %s since %s%s: %s; from %s", count(p.Total), why(n), n.First.UTC().Format(time.RFC3339), missing(n),
		counts(n.Reasons, "other reasons"), counts(n.Sources, "other sources"))
	if latest := latest(n); latest != "" {
		says += "; latest about " + latest
	}
	return admission.Truncate(says, noticeBytes)
}

func count(n int64) string {
	if n == 1 {
		return "1 Event"
	}
	return fmt.Sprintf("%d Events", n)
}

// why says what refused the Events. Where neither bucket nor policy refused them, they were merged
// into Events that the API server does not have, or into what Redis did not take.
func why(n *store.Notice) string {
	if n.Policy != "" {
		return "dropped by " + admission.Refuser(short(n.Bucket), short(n.Policy))
	}
	return "could not be merged"
}

// counts lists what was counted, with counts if there is more than one.
func counts(all []store.Tally, others string) string {
	if len(all) == 1 {
		return cmp.Or(short(all[0].What), others)
	}
	parts := make([]string, len(all))
	for i, t := range mostFirst(all) {
		parts[i] = fmt.Sprintf("%d %s", t.Count, cmp.Or(short(t.What), others))
	}
	return strings.Join(parts, ", ")
}

// mostFirst sorts by count, with the rest last.
func mostFirst(all []store.Tally) []store.Tally {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b store.Tally) int {
		if (a.What == "") != (b.What == "") {
			return cmp.Compare(b.What, a.What)
		}
		return cmp.Compare(b.Count, a.Count)
	})
	return sorted
}

// latest lists the objects that the latest of the Events were about, if a reader does not know them
// from what the notice is about.
func latest(n *store.Notice) string {
	if len(n.Objects) == 1 && n.Objects[0] == n.About.String() {
		return ""
	}
	parts := make([]string, len(n.Objects))
	for i, o := range n.Objects {
		parts[i] = short(o)
	}
	return strings.Join(parts, ", ")
}

func short(name string) string { return admission.Truncate(text.Visible(name), nameBytes) }
