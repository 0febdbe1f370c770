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

// auditCall is one write of an Event, as the API server has logged it.
type auditCall struct {
	namespace, name string
	origin          string // object and source, empty for a patch
	message         string // empty for a patch
	count           int64  // absolute, of all that was seen under the name
	code            int    // HTTP status of the answer
	begun, ended    time.Time
	bySettler       bool
	failedOpen      bool // one of its webhook calls failed
	dropped         bool // refused by a quota or the spam filter
	merged          bool // into a stored Event
}

// auditCalls are the writes of Events of a namespace so far but for the settler's, in the order in which they ended.
func (e *faultEnv) auditCalls(namespace string) []auditCall {
	e.Helper()
	return e.callsOf(namespace, func(c auditCall) bool { return !c.bySettler })
}

// settlerCalls are the settler's that the API server took.
func (e *faultEnv) settlerCalls(namespace string) []auditCall {
	e.Helper()
	return e.callsOf(namespace, func(c auditCall) bool { return c.bySettler && c.code/100 == 2 })
}

// callsOf are those of a namespace for which something holds.
func (e *faultEnv) callsOf(namespace string, holds func(auditCall) bool) (calls []auditCall) {
	e.Helper()
	e.must(e.log.ReadNew(e.readAuditLine))
	for _, c := range e.calls {
		if c.namespace == namespace && holds(c) {
			calls = append(calls, c)
		}
	}
	return calls
}

// readAuditLine takes a line of the API server's log.
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

// newOccurrences is how many occurrences calls were the first to tell of, of the calls
// under way at any time from one to another for which something holds.
func newOccurrences(calls []auditCall, from, to time.Time, holds func(auditCall) bool) (n int64) {
	known := map[string]int64{}
	for _, c := range calls {
		more := max(0, c.count-known[c.name])
		known[c.name] += more
		if !c.begun.After(to) && !c.ended.Before(from) && holds(c) {
			n += more
		}
	}
	return n
}

// failedOpenCount is how many occurrences were stored by calls that failed open. Those
// that the webhook had counted too may be told twice: one under a new name,
// all that the name tells of.
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

// nameCollisions is how many Events got the name of another: recorders make names of
// the time only. The API server's log distinguishes them by their messages.
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

// countDifferences lists the objects and sources of which not as much is told as was
// said in calls, with both numbers, and what was called and is stored of them.
func (e *faultEnv) countDifferences(namespace string, calls []auditCall) (list []string) {
	e.Helper()
	type numbers struct {
		said, told int64
		trail      []string
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
		of(origins[name]).said += count
	}
	for _, c := range append(calls, e.settlerCalls(namespace)...) {
		n := of(origins[c.name])
		n.trail = append(n.trail, fmt.Sprintf("%s for %s: %+v", c.begun.Format("15:04:05.000"), c.ended.Sub(c.begun), c))
	}
	events, err := e.client.CoreV1().Events(namespace).List(e.Context(), metav1.ListOptions{})
	e.must(err)
	for i := range events.Items {
		event := &events.Items[i]
		n := of(event.InvolvedObject.Name + " of " + cmp.Or(event.Source.Component, event.ReportingController))
		n.told += occurrences(event)
		n.trail = append(n.trail, fmt.Sprintf("stored: %+v", event))
	}
	for origin, n := range all {
		if n.said != n.told {
			list = append(list, fmt.Sprintf("%s: said %d, told %d\n\t%s", origin, n.said, n.told, strings.Join(n.trail, "\n\t")))
		}
	}
	slices.Sort(list)
	return list
}
