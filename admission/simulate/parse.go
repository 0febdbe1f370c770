package simulate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/admission/simulate/recording"
)

func decode(text []byte, into any) error { return json.Unmarshal(text, into, recording.Lenient()) }

// skipped is an error that says why an entry is not simulated.
type skipped string

func (s skipped) Error() string { return string(s) }

// unknown is an error that says why a recording lacks the content of a write.
type unknown string

func (u unknown) Error() string { return string(u) }

// decoded is a decoded entry.
type decoded struct {
	// kind is the detected kind of the entry, or empty if it is unknown.
	kind   string
	number int64
	write  *write
	record []byte // write, encoded
	// err says why the entry is not a write.
	err error
	// same is equal for duplicate entries, and uid for two states of an Event. Either is empty if unknown.
	same, uid    string
	timesShifted bool // to the creation time
}

// decoder decodes entries. It is safe for concurrent use.
type decoder struct {
	file   int // index of the file in Input.Files
	exempt Exempt
}

// scratch is reusable memory for the entries of a batch.
type scratch struct {
	line    line
	writes  slab
	records []byte // encoded writes of the batch
}

// maxNested is the maximum nesting of entries, such as a list in a line or a log entry that a collector wrapped.
const maxNested = 3

// entry decodes an entry and the entries nested in it, and appends them to to. They use the memory of s.
func (d *decoder) entry(to []decoded, e *recording.Entry, nested int, s *scratch) []decoded {
	one := decoded{number: e.Number, err: e.Err}
	if e.Err != nil {
		return append(to, one)
	}
	l := &s.line
	if err := l.decode(e.Text); err != nil {
		one.err = recording.PlainError(err)
		return append(to, one)
	}
	l.APIVersion = cmp.Or(l.APIVersion, e.APIVersion)
	watched, ofWatch := verbOf(l.Type)
	isAudit := strings.HasPrefix(l.APIVersion, auditv1.GroupName+"/") || l.AuditID != "" && l.Stage != ""
	switch {
	case isAudit:
		one.kind = "audit log of the API server"
		if l.Level != "" {
			one.kind += ", level " + string(l.Level)
		}
		d.request(&one, s)
	case ofWatch:
		one.kind = "watch"
		d.event(&one, watched, l.value(l.Object), "", s)
	case l.Type == "BOOKMARK" || l.Type == "ERROR" && l.Object != part{}:
		one.kind, one.err = "watch", skipped("bookmarks and errors of a watch")
	case l.Kind == "Event" || l.InvolvedObject != part{} || l.Regarding != part{}:
		one.kind = "Events"
		d.event(&one, stored, e.Text, e.APIVersion, s)
	case nested < maxNested:
		return d.inner(to, e, nested, s)
	default:
		one.err = errNoEntry
	}
	return append(to, one)
}

// verbOf returns the verb for the type of a watch event.
func verbOf(event string) (v verb, known bool) {
	switch event {
	case "ADDED":
		return create, true
	case "MODIFIED":
		return update, true
	case "DELETED":
		return remove, true
	}
	return "", false
}

// errNoEntry is the error for an entry of an unknown kind.
var errNoEntry = errors.New("it is not an audit log entry, a watch event or an Event")

// inner decodes the items of a list, or the log line that a collector wrapped in an entry.
func (d *decoder) inner(to []decoded, e *recording.Entry, nested int, s *scratch) []decoded {
	if text, ok := recording.Unwrap(e.Text); ok {
		return d.entry(to, &recording.Entry{Number: e.Number, Text: text}, nested+1, s)
	}
	before := len(to)
	if recording.IsList(e.Text) {
		_, _ = recording.Read(context.Background(), bytes.NewReader(e.Text), func(item recording.Entry) error { // the reader never fails
			item.Number = e.Number
			to = d.entry(to, &item, maxNested, s)
			return nil
		})
	}
	if len(to) == before {
		to = append(to, decoded{number: e.Number, err: errNoEntry})
	}
	return to
}

// event decodes an Event without a request, so the time and the API of the write come from the Event. Unless v is stored, the
// time is that of its last occurrence. In a watch, ADDED means a create and MODIFIED an update.
func (d *decoder) event(one *decoded, v verb, text []byte, apiVersion string, s *scratch) {
	m := s.writes.next()
	e, err := m.event.decode(text, strings.HasPrefix(apiVersion, eventsv1.GroupName+"/"))
	if err != nil {
		one.err = err
		return
	}
	if e.Name == "" || e.Namespace == "" {
		one.err = errors.New("the Event has no name or no namespace")
		return
	}
	w := &m.write
	*w = write{record: record{
		Verb: v, Namespace: e.Namespace, Name: e.Name,
		NewAPI: !e.EventTime.IsZero() && e.Source.Component == "" && e.Source.Host == "",
	}}
	one.uid = string(e.UID)
	if e.UID != "" && e.ResourceVersion != "" {
		one.same = string(v) + " " + string(e.UID) + " " + e.ResourceVersion
		if v != remove {
			one.same = one.same[len(v):] // a list and a watch may have the same Event
		}
	}
	one.timesShifted = correctTimes(e)
	w.At, w.Last = times(e)
	if v != stored {
		w.At = w.Last
	}
	w.Clock = w.At
	d.finish(one, w, e, s)
}

// finish checks and encodes a write. e is its Event, or nil if unknown.
func (d *decoder) finish(one *decoded, w *write, e *corev1.Event, s *scratch) {
	w.File, w.Line = d.file, one.number
	one.write, one.err = w.of(e)
	switch {
	case one.err != nil:
	case slices.Contains(d.exempt.Users, w.User.Username):
		one.err = skipped("requests of exempt users")
	case slices.Contains(d.exempt.Namespaces, w.Namespace):
		one.err = skipped("Events in exempt namespaces")
	}
	if one.err == nil {
		from := len(s.records)
		s.records, one.err = appendEncoded(s.records, w)
		one.record = s.records[from:]
	}
}

// of checks a write. If e is not nil, it is the Event of the write, and of removes the fields that the API server and
// eventquota added to it.
func (w *write) of(e *corev1.Event) (*write, error) {
	if w.At.IsZero() {
		return nil, errors.New("the Event has no time")
	}
	if w.At.UTC().Year() < firstYear || w.Last.UTC().Year() >= lastYear {
		return nil, fmt.Errorf("its time is not between %d and %d", firstYear, lastYear)
	}
	if e == nil {
		return w, nil
	}
	if settler.IsNotice(e) {
		return nil, skipped("notices of eventquota")
	}
	e.UID, e.ResourceVersion, e.Generation, e.ManagedFields = "", "", 0, nil
	e.CreationTimestamp.Time = time.Time{}
	delete(e.Annotations, admission.AnnotationMerged)
	delete(e.Annotations, admission.AnnotationMessages)
	delete(e.Annotations, admission.AnnotationCreateID)
	w.event = e
	return w, nil
}

// quickEvent is a corev1.Event that decodes faster.
type quickEvent struct {
	corev1.Event

	FirstTimestamp happened `json:"firstTimestamp"`
	LastTimestamp  happened `json:"lastTimestamp"`
}

// decodeEvent decodes an Event of either API and converts it to core/v1. newAPI says which API applies to an Event
// without apiVersion: events.k8s.io/v1 if true.
func decodeEvent(text []byte, newAPI bool) (*corev1.Event, error) {
	return new(quickEvent).decode(text, newAPI)
}

// decode is like decodeEvent, but decodes into q, which must be empty.
func (q *quickEvent) decode(text []byte, newAPI bool) (*corev1.Event, error) {
	if err := decode(text, q); err != nil {
		return nil, recording.PlainError(err)
	}
	return q.convert(text, newAPI)
}

// convert converts the Event that was decoded from text to core/v1.
func (q *quickEvent) convert(text []byte, newAPI bool) (*corev1.Event, error) {
	e := &q.Event
	e.FirstTimestamp.Time, e.LastTimestamp.Time = q.FirstTimestamp.Time, q.LastTimestamp.Time
	switch {
	case e.Kind == "" && e.APIVersion == "":
	case e.Kind == "Event" && e.APIVersion == "v1":
		newAPI = false
	case e.Kind == "Event" && strings.HasPrefix(e.APIVersion, eventsv1.GroupName+"/"):
		newAPI = true
	default:
		return nil, errors.New("is not an Event of v1 or events.k8s.io")
	}
	e.TypeMeta = metav1.TypeMeta{}
	if !newAPI {
		return e, nil
	}
	var later eventsv1.Event // for the fields with other names
	if err := decode(text, &later); err != nil {
		return nil, recording.PlainError(err)
	}
	e.InvolvedObject, e.Message, e.ReportingController = later.Regarding, later.Note, later.ReportingController
	e.Source, e.Count = later.DeprecatedSource, later.DeprecatedCount
	e.FirstTimestamp, e.LastTimestamp = later.DeprecatedFirstTimestamp, later.DeprecatedLastTimestamp
	return e, nil
}
