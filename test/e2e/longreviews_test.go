package e2e

import (
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
)

// longEvents makes recordings of Events, some of whose reviews are longer than the webhook reads. The recordings are
// generated, and look the same as recordings of a cluster.
func (e *env) longEvents() []recording {
	e.Helper()
	audit := recording{description: "long messages in an audit log", read: auditEntries, files: map[string]string{}}
	watch := recording{description: "long messages in a watch", read: watchEntries, files: map[string]string{}}
	list := recording{description: "long messages in a list", read: listEntries, files: map[string]string{}}
	for _, flavor := range flavors() {
		namespace := "long-" + flavor
		var log, watched strings.Builder
		var items []map[string]any
		for i := range 15 { // each message, patched and not
			event := e.longEvent(namespace, i)
			e.appendAuditLine(&log, "create", event, event)
			e.appendLine(&watched, map[string]any{"type": "ADDED", "object": event})
			if i%3 > 0 {
				at := start().Add(time.Duration(100+i) * time.Second).Format(time.RFC3339)
				patch := map[string]any{"count": 3, "lastTimestamp": at, "message": event["message"]}
				e.appendAuditLine(&log, "patch", event, patch)
				event = maps.Clone(event)
				event["count"], event["lastTimestamp"] = 3, at
				e.appendLine(&watched, map[string]any{"type": "MODIFIED", "object": event})
			}
			items = append(items, event)
		}
		audit.files[flavor], watch.files[flavor] = log.String(), watched.String()
		list.files[flavor] = string(e.encode(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}))
	}
	return []recording{audit, watch, list}
}

// longEvent returns the i-th Event of a namespace.
func (e *env) longEvent(namespace string, i int) map[string]any {
	at := start().Add(time.Duration(i) * time.Second).Format(time.RFC3339)
	message := [...]string{
		"short",
		strings.Repeat("x", admission.MaxReviewBytes+1000),
		strings.Repeat("<", admission.MaxReviewBytes/6+1), // six bytes each in JSON
		strings.Repeat("y", admission.MaxReviewBytes*5/9), // two of them are too long: the review of an UPDATE also has the stored Event
		strings.Repeat("z", admission.MaxReviewBytes/3),
	}[i%5]
	return map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata":       map[string]any{"namespace": namespace, "name": fmt.Sprint("long-", i)},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": fmt.Sprint("web-", i%4)},
		"source":         map[string]any{"component": fmt.Sprint("operator-", i%2)},
		"type":           [...]string{"Normal", "Warning"}[i/5%2], "reason": fmt.Sprint("Failed", i%3), "message": message,
		"firstTimestamp": at, "lastTimestamp": at, "count": 1,
	}
}

// start returns when the Events of generated recordings begin.
func start() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

// appendAuditLine appends a line of an audit log.
func (e *env) appendAuditLine(to *strings.Builder, verb string, event, body map[string]any) {
	e.Helper()
	name, _ := event["metadata"].(map[string]any)
	last, _ := body["lastTimestamp"].(string)
	at, err := time.Parse(time.RFC3339, last)
	e.must(err)
	e.appendLine(to, map[string]any{
		"apiVersion": "audit.k8s.io/v1", "kind": "Event", "level": "Request", "stage": "ResponseComplete", "verb": verb,
		"auditID": fmt.Sprint(verb, name), "user": map[string]any{"username": "operator"},
		"objectRef":      map[string]any{"resource": "events", "apiVersion": "v1", "namespace": name["namespace"], "name": name["name"]},
		"responseStatus": map[string]any{"code": 200}, "requestObject": body,
		"requestReceivedTimestamp": at.Format(metav1.RFC3339Micro),
	})
}

func (e *env) appendLine(to *strings.Builder, object map[string]any) {
	e.Helper()
	to.Write(append(e.encode(object), '\n'))
}
