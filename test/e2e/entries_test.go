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

// entry is an entry of a recording as a client reads it, by encoding/json alone: nothing of the simulation is asked.
type entry struct {
	// verb is what it did; "stored" is an Event as it was found.
	verb string
	user string
	// eventsV1 says that it came through events.k8s.io.
	eventsV1        bool
	namespace, name string
	// at is when a DELETE was recorded.
	at time.Time
	// object is an Event as its API has it, or a patch.
	object map[string]any
}

// auditEntries are the lines of an audit log. Those that write no Event have no verb.
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

// watchEntries are the events of a watch.
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

// listEntries are the items of a list.
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

// lineEntries are Events in lines.
func lineEntries(t *testing.T, text string) (all []entry) {
	t.Helper()
	for line := range strings.Lines(text) {
		var event map[string]any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		all = append(all, parseStored(event))
	}
	return all
}

// parseStored is an Event that says by itself through which API it came: only a recorder of events.k8s.io gives eventTime and no
// source. It is made what that API calls an Event, without what the API server has added.
func parseStored(event map[string]any) entry {
	source, _ := firstField(event, "source", "deprecatedSource").(map[string]any)
	later := event["eventTime"] != nil && len(source) == 0
	e := entry{verb: "stored", eventsV1: later, object: converted(event, later)}
	metadata, _ := e.object["metadata"].(map[string]any)
	metadata = sentMetadata(metadata)
	e.object["metadata"] = metadata
	e.namespace, _ = metadata["namespace"].(string)
	e.name, _ = metadata["name"].(string)
	e.at = latest(event)
	return e
}

// sentMetadata is metadata without what the API server has added.
func sentMetadata(metadata map[string]any) map[string]any {
	sent := maps.Clone(metadata)
	for _, added := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		delete(sent, added)
	}
	return sent
}

// eventsV1Names are what events.k8s.io calls the fields of core/v1.
func eventsV1Names() map[string]string {
	return map[string]string{
		"involvedObject": "regarding", "message": "note", "reportingComponent": "reportingController", "source": "deprecatedSource",
		"firstTimestamp": "deprecatedFirstTimestamp", "lastTimestamp": "deprecatedLastTimestamp", "count": "deprecatedCount",
	}
}

// converted is an Event as one of the APIs has it, without what is empty.
func converted(event map[string]any, later bool) map[string]any {
	to := map[string]any{}
	for field, value := range event {
		for core, one := range eventsV1Names() {
			if later && field == core {
				field = one
			} else if !later && field == one {
				field = core
			}
		}
		if empty, isMap := value.(map[string]any); value != nil && value != "" && (!isMap || len(empty) > 0) {
			to[field] = value
		}
	}
	to["apiVersion"], to["kind"] = "v1", "Event"
	if later {
		to["apiVersion"] = "events.k8s.io/v1"
	}
	return to
}

// firstField is the value of the first of some fields that is there.
func firstField(event map[string]any, fields ...string) any {
	for _, field := range fields {
		if event[field] != nil {
			return event[field]
		}
	}
	return nil
}

// latest is when an Event happened last.
func latest(event map[string]any) (at time.Time) {
	series, _ := event["series"].(map[string]any)
	for _, value := range []any{
		firstField(event, "firstTimestamp", "deprecatedFirstTimestamp"), firstField(event, "lastTimestamp", "deprecatedLastTimestamp"),
		event["eventTime"], series["lastObservedTime"],
	} {
		text, _ := value.(string)
		if t, err := time.Parse(time.RFC3339, text); err == nil && t.After(at) {
			at = t
		}
	}
	return at
}
