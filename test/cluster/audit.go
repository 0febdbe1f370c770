package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
)

// AuditOptions configures which writes ReadAudit counts as occurrences. It always ignores dry runs.
type AuditOptions struct {
	// IgnoreUsers are users whose writes report no occurrences of their own, such as the settler, which writes the
	// counts of others. Requests includes their requests.
	IgnoreUsers []string
}

// Audit summarizes clients' requests to write Events. It is not safe for concurrent use.
type Audit struct {
	// Requests counts the requests of each kind.
	Requests map[Request]int64

	log          *AuditLog
	opts         AuditOptions
	events       map[eventName][]*reportedEvent
	writesByName map[eventName]int64
	// admitted counts the occurrences that were first reported by a write that was stored.
	admitted int64
}

// Request is a kind of request.
type Request struct {
	Verb      string // create, update, patch, delete or deletecollection
	Code      int    // HTTP status of the answer, such as 201 or 400
	User      string
	UserAgent string
}

// Object identifies the involvedObject, or regarding, of an Event. It is the zero
// Object if the log has no CREATE of the Event.
type Object struct{ APIVersion, Kind, Namespace, Name, UID string }

type eventName struct{ namespace, name string }

// reportedEvent identifies an Event by source, object and name. Recorders derive names from the object's name and the
// time, so two recorders may choose the same name.
type reportedEvent struct {
	subject

	count  int64
	stored bool // the API server has stored a CREATE of it
}

// subject is the source and object of the Event. It is the zero subject if the log has only patches.
type subject struct {
	source source
	object Object
}

// ReadAudit reads the audit log at path, which the API server may still be writing to. Every answered request is in
// the log. ReadAudit ignores an unfinished last line.
//
// It counts occurrences by Event name, source and object as clients sent them, before any change by a mutating
// webhook, and regardless of the answer. A patch names neither source nor object, so it counts for the stored Event
// of its name. A request that was refused before its body was decoded (401, 403, 429 of API Priority and Fairness)
// reports no occurrences.
func ReadAudit(path string, opts AuditOptions) (*Audit, error) {
	a := &Audit{
		Requests: map[Request]int64{},
		log:      &AuditLog{Path: path}, opts: opts,
		events: map[eventName][]*reportedEvent{}, writesByName: map[eventName]int64{},
	}
	return a, a.ReadNew()
}

// ReadNew reads the lines that were added to the log since the previous call.
func (a *Audit) ReadNew() error { return a.log.ReadNew(a.add) }

// AuditLog reads an audit log line by line, while the API server writes to it. It is not safe for concurrent use.
type AuditLog struct {
	Path string

	offset int64 // bytes read so far
	lines  int
}

// ReadNew calls take for each line added since the previous call, and stops at the first error. Each line is a
// request. The error names the file and the line.
func (l *AuditLog) ReadNew(take func(line []byte) error) error {
	file, err := os.Open(l.Path)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	lines := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		l.offset += int64(len(line))
		l.lines++
		if err := take(line); err != nil {
			return fmt.Errorf("audit log %s, line %d: %w", l.Path, l.lines, err)
		}
	}
}

// Occurrences returns the number of occurrences that clients have reported. It sums the highest count that each
// source has sent about each object under each Event name. Counts on the wire are absolute, so a repeated or refused
// request adds nothing.
func (a *Audit) Occurrences() int64 {
	var sum int64
	for _, n := range a.PerNamespace() {
		sum += n
	}
	return sum
}

// Admitted returns how many of the Occurrences were first reported by a write that the API server stored. It is exact
// if each source writes its Events one after the other.
func (a *Audit) Admitted() int64 { return a.admitted }

// PerNamespace returns Occurrences by the namespace of the Events.
func (a *Audit) PerNamespace() map[string]int64 {
	sums := map[string]int64{}
	for name, events := range a.events {
		for _, event := range events {
			sums[name.namespace] += event.count
		}
	}
	return sums
}

// PerObject returns Occurrences by the involved object of the Events.
func (a *Audit) PerObject() map[Object]int64 {
	sums := map[Object]int64{}
	for _, events := range a.events {
		for _, event := range events {
			sums[event.object] += event.count
		}
	}
	return sums
}

// MostWrites returns the highest number of stored writes of any single Event, by all clients together. The log does
// not name Events that were created under a generated name, so these count as one.
func (a *Audit) MostWrites() int64 {
	var most int64
	for _, n := range a.writesByName {
		most = max(most, n)
	}
	return most
}

// add counts one line of the log.
func (a *Audit) add(line []byte) error {
	var entry auditEntry
	if err := json.Unmarshal(line, &entry); err != nil {
		return err
	}
	if entry.dryRun() || entry.ObjectRef.Name == probeName {
		return nil
	}
	a.Requests[Request{
		Verb: entry.Verb, Code: entry.ResponseStatus.Code, User: entry.User.Username, UserAgent: entry.UserAgent,
	}]++
	if entry.stored() {
		a.writesByName[eventName{entry.ObjectRef.Namespace, entry.ObjectRef.Name}]++
	}
	if len(entry.RequestObject) == 0 || slices.Contains(a.opts.IgnoreUsers, entry.User.Username) {
		return nil
	}
	var body eventBody
	switch entry.Verb {
	case "create", "update", "patch":
		if err := json.Unmarshal(entry.RequestObject, &body); err != nil {
			return fmt.Errorf("%s %s: %w", entry.Verb, entry.RequestURI, err)
		}
	default:
		return nil
	}
	count := body.count()
	if count == 0 {
		if entry.Verb == "patch" { // of another field, such as a label
			return nil
		}
		count = 1
	}
	event := a.findEvent(entry, body)
	if event == nil {
		return nil
	}
	if entry.stored() {
		a.admitted += max(0, count-event.count)
	}
	event.count = max(event.count, count)
	event.stored = event.stored || entry.Verb != "patch" && entry.stored()
	return nil
}

// findEvent returns the Event of a request. It returns nil for a patch if the name has several Events and none is
// stored: the recorder sends the whole Event next.
func (a *Audit) findEvent(entry auditEntry, body eventBody) *reportedEvent {
	name := entry.name(body)
	events := a.events[name]
	if entry.Verb == "patch" && len(events) == 1 {
		return events[0]
	}
	if entry.Verb == "patch" && len(events) > 1 {
		i := slices.IndexFunc(events, func(e *reportedEvent) bool { return e.stored })
		if i < 0 {
			return nil
		}
		return events[i]
	}
	want := subject{} // a patch has none
	if entry.Verb != "patch" {
		want = subject{body.source(), body.object()}
	}
	for _, event := range events {
		if event.subject == want || event.subject == (subject{}) {
			event.subject = want
			return event
		}
	}
	event := &reportedEvent{subject: want}
	a.events[name] = append(events, event)
	return event
}

// auditEntry has the fields used of an audit.k8s.io/v1 Event, which is one request.
type auditEntry struct {
	AuditID    string `json:"auditID"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestObject json.RawMessage `json:"requestObject"`
}

func (e auditEntry) dryRun() bool {
	uri, err := url.ParseRequestURI(e.RequestURI)
	return err == nil && uri.Query().Get("dryRun") != ""
}

// stored reports whether the request has written an Event.
func (e auditEntry) stored() bool {
	switch e.Verb {
	case "create", "update", "patch":
		return e.ResponseStatus.Code/100 == 2
	}
	return false
}

// name returns the Event's name on the wire. A request with generateName gets a unique name, because the log does not
// show the generated one.
func (e auditEntry) name(body eventBody) eventName {
	name := e.ObjectRef.Name
	if name == "" {
		name = body.Metadata.Name
	}
	if name == "" {
		name = body.Metadata.GenerateName + " in request " + e.AuditID
	}
	return eventName{namespace: e.ObjectRef.Namespace, name: name}
}

// eventBody has the fields used of an Event of either API, or of a patch of one.
type eventBody struct {
	Metadata struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
	} `json:"metadata"`
	Count           int64 `json:"count"`           // core/v1
	DeprecatedCount int64 `json:"deprecatedCount"` // events.k8s.io/v1
	Series          struct {
		Count int64 `json:"count"`
	} `json:"series"`
	InvolvedObject objectReference `json:"involvedObject"` // core/v1
	Regarding      objectReference `json:"regarding"`      // events.k8s.io/v1

	Source struct { // core/v1
		Component string `json:"component"`
		Host      string `json:"host"`
	} `json:"source"`
	ReportingController string `json:"reportingController"` // events.k8s.io/v1
	ReportingInstance   string `json:"reportingInstance"`
	ReportingComponent  string `json:"reportingComponent"` // core/v1
}

// source returns the source of an Event.
type source struct{ component, host, controller, instance string }

type objectReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// count returns the absolute count in the body, or 0 if it has none.
func (b eventBody) count() int64 {
	return max(b.Count, b.DeprecatedCount, b.Series.Count)
}

func (b eventBody) source() source {
	controller := b.ReportingController
	if controller == "" {
		controller = b.ReportingComponent
	}
	return source{b.Source.Component, b.Source.Host, controller, b.ReportingInstance}
}

func (b eventBody) object() Object {
	if b.InvolvedObject != (objectReference{}) {
		return Object(b.InvolvedObject)
	}
	return Object(b.Regarding)
}
