package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/replica"
)

// auditCall is one write of an Event, as recorded in the API server's audit log.
type auditCall struct {
	namespace, name string
	origin          string // object and source, empty for a patch
	message         string // empty for a patch
	count           int64  // absolute: the total under this name so far
	code            int    // HTTP status of the answer
	begun, ended    time.Time
	bySettler       bool
	failedOpen      bool // a webhook call of this request failed open
	dropped         bool // refused by a quota or the spam filter
	merged          bool // into a stored Event
}

// auditCalls returns the writes of Events in a namespace so far, except the settler's, in the order in which they
// ended.
func (e *faultEnv) auditCalls(namespace string) []auditCall {
	e.Helper()
	return e.callsOf(namespace, func(c auditCall) bool { return !c.bySettler })
}

// settlerCalls returns the settler's successful writes of Events in a namespace.
func (e *faultEnv) settlerCalls(namespace string) []auditCall {
	e.Helper()
	return e.callsOf(namespace, func(c auditCall) bool { return c.bySettler && c.code/100 == 2 })
}

// callsOf returns the calls in a namespace that match a condition.
func (e *faultEnv) callsOf(namespace string, matches func(auditCall) bool) (calls []auditCall) {
	e.Helper()
	e.must(e.log.ReadNew(e.readAuditLine))
	for _, c := range e.calls {
		if c.namespace == namespace && matches(c) {
			calls = append(calls, c)
		}
	}
	return calls
}

// readAuditLine parses a line of the audit log and appends it to e.calls.
func (e *faultEnv) readAuditLine(line []byte) error {
	var entry struct {
		Verb           string
		Annotations    map[string]string
		User           struct{ Username string }
		ObjectRef      struct{ Namespace, Name string }
		ResponseStatus struct {
			Code    int
			Message string
		}
		RequestReceivedTimestamp time.Time
		StageTimestamp           time.Time
		RequestObject            struct {
			Metadata                  struct{ Name string }
			Message, Note             string
			Count, DeprecatedCount    int64
			Series                    struct{ Count int64 }
			InvolvedObject, Regarding struct{ Name string }
			Source                    struct{ Component string }
			ReportingController       string
		}
	}
	if err := json.Unmarshal(line, &entry); err != nil || entry.Verb == "deletecollection" {
		return err
	}
	body := entry.RequestObject
	c := auditCall{
		namespace: entry.ObjectRef.Namespace, name: cmp.Or(body.Metadata.Name, entry.ObjectRef.Name),
		count: max(1, body.Count, body.DeprecatedCount, body.Series.Count), code: entry.ResponseStatus.Code,
		begun: entry.RequestReceivedTimestamp, ended: entry.StageTimestamp, bySettler: entry.User.Username == replica.User,
	}
	if entry.Verb == "create" {
		c.message = body.Message + body.Note
		c.origin = body.InvolvedObject.Name + body.Regarding.Name + " of " + cmp.Or(body.Source.Component, body.ReportingController)
	}
	c.merged = strings.Contains(entry.ResponseStatus.Message, "merged into a stored Event")
	c.dropped = strings.Contains(entry.ResponseStatus.Message, " is empty: ")
	for key := range entry.Annotations {
		c.failedOpen = c.failedOpen || strings.HasPrefix(key, "failed-open.")
	}
	e.calls = append(e.calls, c)
	return nil
}

// newOccurrences counts the occurrences first reported by calls that match a condition and were in progress at any
// time between from and to.
func newOccurrences(calls []auditCall, from, to time.Time, matches func(auditCall) bool) (n int64) {
	known := map[string]int64{}
	for _, c := range calls {
		more := max(0, c.count-known[c.name])
		known[c.name] += more
		if !c.begun.After(to) && !c.ended.Before(from) && matches(c) {
			n += more
		}
	}
	return n
}

// failedOpenCount counts the occurrences stored by calls that failed open. If the webhook had counted them too, they
// may be reported twice. An Event stored under a new name repeats the whole count of that name.
func failedOpenCount(calls []auditCall) (n int64) {
	most := map[string]int64{}
	for _, c := range calls {
		if c.failedOpen && c.code/100 == 2 {
			most[c.name] = max(most[c.name], c.count)
		}
	}
	for _, count := range most {
		n += count
	}
	return n
}

// nameCollisions counts the Events that got the name of another Event, because recorders derive names from the time
// only. Their messages in the audit log differ.
func nameCollisions(calls []auditCall) (n int64) {
	messages := map[string]string{}
	for _, c := range calls {
		if first, known := messages[c.name]; known && c.message != "" && c.message != first {
			n++
		} else if c.message != "" {
			messages[c.name] = c.message
		}
	}
	return n
}

// countDifferences lists the objects and sources whose stored Events report a different number of occurrences
// than the calls. Each entry has both numbers, the calls and the stored Events.
func (e *faultEnv) countDifferences(namespace string, calls []auditCall) (list []string) {
	e.Helper()
	type numbers struct {
		sent, reported int64
		trail          []string
	}
	all, origins, most := map[string]*numbers{}, map[string]string{}, map[string]int64{}
	of := func(origin string) *numbers {
		if all[origin] == nil {
			all[origin] = &numbers{}
		}
		return all[origin]
	}
	for _, c := range calls {
		origins[c.name] = cmp.Or(c.origin, origins[c.name])
		most[c.name] = max(most[c.name], c.count)
	}
	for name, count := range most {
		of(origins[name]).sent += count
	}
	for _, c := range append(calls, e.settlerCalls(namespace)...) {
		n := of(origins[c.name])
		n.trail = append(n.trail, fmt.Sprintf("%s, took %s: %+v", c.begun.Format("15:04:05.000"), c.ended.Sub(c.begun), c))
	}
	events, err := e.client.CoreV1().Events(namespace).List(e.Context(), metav1.ListOptions{})
	e.must(err)
	for i := range events.Items {
		event := &events.Items[i]
		n := of(event.InvolvedObject.Name + " of " + cmp.Or(event.Source.Component, event.ReportingController))
		n.reported += occurrences(event)
		n.trail = append(n.trail, fmt.Sprintf("stored: %+v", event))
	}
	for origin, n := range all {
		if n.sent != n.reported {
			list = append(list, fmt.Sprintf("%s: calls sent %d, stored Events report %d\n\t%s", origin, n.sent, n.reported, strings.Join(n.trail, "\n\t")))
		}
	}
	slices.Sort(list)
	return list
}
