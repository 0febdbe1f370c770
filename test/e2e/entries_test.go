package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
	"time"
)

// entry is an entry of a recording as a client sees it. It is decoded by encoding/json alone, without any code of the
// simulation.
type entry struct {
	// verb is create, update, patch, delete, deletecollection or "stored". "stored" stands for an Event from a list.
	// Ignored entries have no verb.
	verb string
	user string
	// eventsV1 reports whether the entry came through events.k8s.io.
	eventsV1        bool
	namespace, name string
	// at is when a DELETE was recorded.
	at time.Time
	// object is an Event in the version of its API, or a patch.
	object map[string]any
}

// auditEntries reads the lines of an audit log. An entry that does not write an Event has an empty verb.
func auditEntries(t *testing.T, text string) (all []entry) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l struct {
			Verb, Stage              string
			User                     struct{ Username string }
			ObjectRef                struct{ Resource, APIGroup, Namespace, Name string }
			RequestObject            map[string]any
			RequestReceivedTimestamp time.Time
			ResponseStatus           struct{ Code int }
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		e := entry{
			verb: l.Verb, user: l.User.Username, eventsV1: l.ObjectRef.APIGroup != "",
			namespace: l.ObjectRef.Namespace, name: l.ObjectRef.Name, at: l.RequestReceivedTimestamp, object: l.RequestObject,
		}
		if metadata, ok := e.object["metadata"].(map[string]any); ok {
			e.object["metadata"] = sentMetadata(metadata)
			if name, ok := metadata["name"].(string); ok {
				e.name = name
			}
		}
		if l.ObjectRef.Resource != "events" || l.Stage != "ResponseComplete" || l.ResponseStatus.Code/100 != 2 {
			e.verb = ""
		}
		all = append(all, e)
	}
	return all
}

// watchEntries reads the events of a watch.
func watchEntries(t *testing.T, text string) (all []entry) {
	t.Helper()
	for events := json.NewDecoder(bufio.NewReader(strings.NewReader(text))); ; {
		var one struct {
			Type   string
			Object map[string]any
		}
		err := events.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		e := parseStored(one.Object)
		e.verb = map[string]string{"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}[one.Type]
		all = append(all, e)
	}
}

// listEntries reads the items of a list.
func listEntries(t *testing.T, text string) (all []entry) {
	t.Helper()
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		all = append(all, parseStored(item))
	}
	return all
}

// parseStored reads a stored Event and derives the API that wrote it: only recorders of events.k8s.io set eventTime
// without a source. The Event is converted to the version of that API, without the fields that the API server sets.
func parseStored(event map[string]any) entry {
	source, _ := firstField(event, "source", "deprecatedSource").(map[string]any)
	eventsV1 := event["eventTime"] != nil && len(source) == 0
	e := entry{verb: "stored", eventsV1: eventsV1, object: converted(event, eventsV1)}
	metadata, _ := e.object["metadata"].(map[string]any)
	metadata = sentMetadata(metadata)
	e.object["metadata"] = metadata
	e.namespace, _ = metadata["namespace"].(string)
	e.name, _ = metadata["name"].(string)
	e.at = latest(event)
	return e
}

// sentMetadata returns metadata without the fields that the API server sets.
func sentMetadata(metadata map[string]any) map[string]any {
	sent := maps.Clone(metadata)
	for _, added := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		delete(sent, added)
	}
	return sent
}

// eventsV1Names maps the core/v1 names of fields to those of events.k8s.io.
func eventsV1Names() map[string]string {
	return map[string]string{
		"involvedObject": "regarding", "message": "note", "reportingComponent": "reportingController", "source": "deprecatedSource",
		"firstTimestamp": "deprecatedFirstTimestamp", "lastTimestamp": "deprecatedLastTimestamp", "count": "deprecatedCount",
	}
}

// converted returns an Event in the version of one of the APIs, without empty fields.
func converted(event map[string]any, eventsV1 bool) map[string]any {
	to := map[string]any{}
	for field, value := range event {
		for core, renamed := range eventsV1Names() {
			if eventsV1 && field == core {
				field = renamed
			} else if !eventsV1 && field == renamed {
				field = core
			}
		}
		if empty, isMap := value.(map[string]any); value != nil && value != "" && (!isMap || len(empty) > 0) {
			to[field] = value
		}
	}
	to["apiVersion"], to["kind"] = "v1", "Event"
	if eventsV1 {
		to["apiVersion"] = "events.k8s.io/v1"
	}
	return to
}

// firstField returns the value of the first of the fields that is set, or nil.
func firstField(event map[string]any, fields ...string) any {
	for _, field := range fields {
		if event[field] != nil {
			return event[field]
		}
	}
	return nil
}

// latest returns the last time at which an Event occurred, or at which it was created if that is later.
func latest(event map[string]any) (at time.Time) {
	series, _ := event["series"].(map[string]any)
	metadata, _ := event["metadata"].(map[string]any)
	for _, value := range []any{
		firstField(event, "firstTimestamp", "deprecatedFirstTimestamp"), firstField(event, "lastTimestamp", "deprecatedLastTimestamp"),
		event["eventTime"], series["lastObservedTime"], metadata["creationTimestamp"],
	} {
		text, _ := value.(string)
		if t, err := time.Parse(time.RFC3339, text); err == nil && t.After(at) {
			at = t
		}
	}
	return at
}
