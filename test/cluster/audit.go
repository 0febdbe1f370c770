package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	path   string
	opts   AuditOptions
	offset int64 // bytes read so far
	lines  int
	events map[eventName]*reported
	writes map[eventName]int64
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

// reported is what was said about the Event of one name.
type reported struct {
	count  int64
	object Object
}

// ReadAudit reads the audit log at path, which the API server may still be writing to:
// a request that it has answered is in the log. An unfinished last line is left out.
//
// Occurrences are counted by Event name as clients sent it, not as a mutating webhook
// may have changed it, and from every request, however it was answered. A request that
// was refused before its body was decoded (401, 403, 429 of API Priority and Fairness)
// reports none.
func ReadAudit(path string, opts AuditOptions) (*Audit, error) {
	a := &Audit{
		Requests: map[Request]int64{},
		path:     path, opts: opts,
		events: map[eventName]*reported{}, writes: map[eventName]int64{},
	}
	return a, a.ReadOn()
}

// ReadOn reads what has been written to the log since the last time.
func (a *Audit) ReadOn() error {
	file, err := os.Open(a.path)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
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
		a.offset += int64(len(line))
		a.lines++
		if err := a.add(line); err != nil {
			return fmt.Errorf("audit log %s, line %d: %w", a.path, a.lines, err)
		}
	}
}

// Occurrences is the number of occurrences that clients have reported: the sum over
// all Event names of the highest count sent under that name. Counts on the wire are
// absolute, so a repeated or refused request adds nothing.
func (a *Audit) Occurrences() int64 {
	var sum int64
	for _, event := range a.events {
		sum += event.count
	}
	return sum
}

// PerObject is Occurrences by the object that the Events are about.
func (a *Audit) PerObject() map[Object]int64 {
	sums := map[Object]int64{}
	for _, event := range a.events {
		sums[event.object] += event.count
	}
	return sums
}

// MostWrites is the highest number of writes that the API server has stored of any one
// Event, by whomever. The log does not name Events that were created under a generated
// name, so these count as one.
func (a *Audit) MostWrites() int64 {
	var most int64
	for _, n := range a.writes {
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
	if entry.dryRun() {
		return nil
	}
	a.Requests[Request{
		Verb: entry.Verb, Code: entry.ResponseStatus.Code, User: entry.User.Username, UserAgent: entry.UserAgent,
	}]++
	if entry.stored() {
		a.writes[eventName{entry.ObjectRef.Namespace, entry.ObjectRef.Name}]++
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
	name := entry.name(body)
	if a.events[name] == nil {
		a.events[name] = &reported{}
	}
	event := a.events[name]
	event.count = max(event.count, count)
	if entry.Verb != "patch" {
		event.object = body.object()
	}
	return nil
}
