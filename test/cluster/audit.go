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

// AuditOptions say what ReadAudit leaves out of the occurrences. Dry-runs are always
// left out of everything.
type AuditOptions struct {
	// IgnoreUsers are users whose writes report no occurrence of their own, such as
	// the settler, which writes down what others have reported. Their requests are
	// still in Requests.
	IgnoreUsers []string
}

// Audit is what clients asked the API server to write about Events. It is for one
// goroutine at a time.
type Audit struct {
	// Requests counts the requests of each kind.
	Requests map[Request]int64

	log          *AuditLog
	opts         AuditOptions
	events       map[eventName][]*reportedEvent
	writesByName map[eventName]int64
	// admitted are the occurrences that came first with a write that was stored.
	admitted int64
}

// Request is a kind of request.
type Request struct {
	Verb      string // create, update, patch, delete or deletecollection
	Code      int    // HTTP status of the answer, such as 201 or 429
	User      string
	UserAgent string
}

// Object is what an Event is about: its involvedObject, or regarding. It is the zero
// Object where the log has no CREATE of the Event.
type Object struct{ APIVersion, Kind, Namespace, Name, UID string }

type eventName struct{ namespace, name string }

// reportedEvent is what one source said about one object under one name. Recorders make names
// of the object's name and the time, so that two of them may choose the same.
type reportedEvent struct {
	subject

	count  int64
	stored bool // the API server has stored a CREATE of it
}

// subject is whose Event it is. It is the zero subject where the log has patches only.
type subject struct {
	source source
	object Object
}

// ReadAudit reads the audit log at path, which the API server may still be writing to:
// a request that it has answered is in the log. An unfinished last line is left out.
//
// Occurrences are counted by Event name, source and object as clients sent them, not as
// a mutating webhook may have changed them, and from every request, however it was
// answered. A patch names neither source nor object: it is about the Event that has been
// stored under its name. A request that
// was refused before its body was decoded (401, 403, 429 of API Priority and Fairness)
// reports none.
func ReadAudit(path string, opts AuditOptions) (*Audit, error) {
	a := &Audit{
		Requests: map[Request]int64{},
		log:      &AuditLog{Path: path}, opts: opts,
		events: map[eventName][]*reportedEvent{}, writesByName: map[eventName]int64{},
	}
	return a, a.ReadNew()
}

// ReadNew reads what has been written to the log since the last time.
func (a *Audit) ReadNew() error { return a.log.ReadNew(a.add) }

// AuditLog is an audit log that is read line by line, while the API server writes to it. It is for one goroutine at a
// time.
type AuditLog struct {
	Path string

	offset int64 // bytes read so far
	lines  int
}

// ReadNew calls take with each line that has been written since the last time, until it fails. A line is a request. The
// error names the file, and the line that take has failed at.
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

// Occurrences is the number of occurrences that clients have reported: the sum over
// all Event names of the highest count that each source has sent about each object under
// that name. Counts on the wire are absolute, so a repeated or refused request adds
// nothing.
func (a *Audit) Occurrences() int64 {
	var sum int64
	for _, n := range a.PerNamespace() {
		sum += n
	}
	return sum
}

// Admitted is how many of the Occurrences the API server has stored as they came: those of a write that it has answered so,
// which no earlier write of the same Event has reported. It is exact where a source writes one after the other.
func (a *Audit) Admitted() int64 { return a.admitted }

// PerNamespace is Occurrences by the namespace that the Events are in.
func (a *Audit) PerNamespace() map[string]int64 {
	sums := map[string]int64{}
	for name, events := range a.events {
		for _, event := range events {
			sums[name.namespace] += event.count
		}
	}
	return sums
}

// PerObject is Occurrences by the object that the Events are about.
func (a *Audit) PerObject() map[Object]int64 {
	sums := map[Object]int64{}
	for _, events := range a.events {
		for _, event := range events {
			sums[event.object] += event.count
		}
	}
	return sums
}

// MostWrites is the highest number of writes that the API server has stored of any one
// Event, by whomever. The log does not name Events that were created under a generated
// name, so these count as one.
func (a *Audit) MostWrites() int64 {
	var most int64
	for _, n := range a.writesByName {
		most = max(most, n)
	}
	return most
}

// add takes one line of the log into account.
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
		if entry.Verb == "patch" { // it is about something else, such as a label
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

// findEvent is what a request is about, or nil for a patch of an Event that is not stored, of
// whose name there are several: its recorder sends the whole Event next.
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
	of := subject{} // of a patch
	if entry.Verb != "patch" {
		of = subject{body.source(), body.object()}
	}
	for _, event := range events {
		if event.subject == of || event.subject == (subject{}) {
			event.subject = of
			return event
		}
	}
	event := &reportedEvent{subject: of}
	a.events[name] = append(events, event)
	return event
}

// auditEntry is what is of interest in an audit.k8s.io/v1 Event: one request.
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

// name is the Event's name on the wire. One that asked for a generated name gets one
// that is its own, because the log does not show what the API server made of it.
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

// eventBody is what is of interest in an Event of either API, or in a patch of one.
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

// source is who reports an Event.
type source struct{ component, host, controller, instance string }

type objectReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// count is the absolute count that the body carries, 0 if it carries none.
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
