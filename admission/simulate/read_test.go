package simulate

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate/recording"
)

func TestBrokenEntriesAreCountedWithLine(t *testing.T) {
	good := text(event("a", "one", sec(0)))
	nameless, timeless := event("", "one", sec(0)), event("a", "one", time.Time{})
	ancient := event("a", "one", time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC))
	body := func(e any) string { return text(request("create", "a", 201, sec(0), e)) }
	list := listOf(t, event("a", "one", sec(0)), "no Event", event("b", "two", sec(1)))
	cut := listOf(t, event("a", "one", sec(0)), event("b", "two", sec(1)))
	cut = cut[:strings.LastIndex(cut, `"message"`)+len(`"message": "t`)]
	for says, test := range map[string]struct {
		content string
		writes  int64
		broken  []Broken
	}{
		"no JSON":                       {good + "{\n\n" + good, 2, []Broken{{"", 2, "it is cut off"}}},
		"the last line is cut":          {good + good[:20], 1, []Broken{{"", 2, "it is cut off"}}},
		"a line that is something else": {`{"kind":"Pod","apiVersion":"v1"}` + "\n" + good, 1, []Broken{{"", 1, "it is not an audit log entry, a watch event or an Event"}}},
		"a number":                      {"17\n" + good, 1, []Broken{{"", 1, "it is not a JSON object"}}},
		"an Event of another group":     {`{"kind":"Event","apiVersion":"tekton.dev/v1"}` + "\n" + good, 1, []Broken{{"", 1, "is not an Event of v1 or events.k8s.io"}}},
		"an Event without a name":       {text(nameless) + good, 1, []Broken{{"", 1, "the Event has no name or no namespace"}}},
		"an Event without a time":       {text(timeless) + good, 1, []Broken{{"", 1, "the Event has no time"}}},
		"an Event of a time before all": {text(ancient) + good, 1, []Broken{{"", 1, "the Event has no time"}}},
		"a line that is too long":       {strings.Repeat("x", recording.MaxLine+1) + "\n" + good, 1, []Broken{{"", 1, "the line is longer than 8388608 bytes"}}},
		"a line that is far too long":   {strings.Repeat("x", 5*recording.MaxLine/2) + "\n" + good, 1, []Broken{{"", 1, "the line is longer than 8388608 bytes"}}},
		"a last line that is too long":  {good + strings.Repeat("x", recording.MaxLine+1), 1, []Broken{{"", 2, "the line is longer than 8388608 bytes"}}},
		"a watch of an unknown type":    {watchLine("GROWN", event("a", "one", sec(0))) + good, 1, []Broken{{"", 1, "it is not an audit log entry, a watch event or an Event"}}},
		"a watch of something else":     {watchLine("ADDED", map[string]any{"kind": "Pod", "apiVersion": "v1"}) + good, 1, []Broken{{"", 1, "is not an Event"}}},
		"a request without an Event":    {body("[]") + good, 1, []Broken{{"", 1, "requestObject: "}}},
		"a request with half an Event":  {body(`{"reason":"A","count":"many"}`) + good, 1, []Broken{{"", 1, "requestObject: count has the wrong type"}}},
		"an item that is no Event":      {list, 2, []Broken{{"", 2, "it is not a JSON object"}}},
		"a list that is cut":            {cut, 1, []Broken{{"", 2, "the rest is not read: "}}},
	} {
		t.Run(says, func(t *testing.T) {
			in := readAll(t, test.content).Input
			if in.Most != test.writes || in.Broken != int64(len(test.broken)) || len(in.BrokenLines) != len(test.broken) {
				t.Fatalf("read %d writes and %d broken lines %v, want %d and %v", in.Most, in.Broken, in.BrokenLines, test.writes, test.broken)
			}
			for i, want := range test.broken {
				if got := in.BrokenLines[i]; got.Line != want.Line || !strings.Contains(got.Error, want.Error) {
					t.Errorf("broken line %+v, want %+v", got, want)
				}
			}
		})
	}
}

func TestBrokenLinesAreBounded(t *testing.T) {
	in := readAll(t, text(event("a", "one", sec(0)))+strings.Repeat("broken\n", 25)).Input
	if in.Broken != 25 || len(in.BrokenLines) != 10 || in.BrokenLines[9].Line != 11 {
		t.Errorf("%d broken lines, shown %v, want 25 and the first 10", in.Broken, in.BrokenLines)
	}
}

func TestRequestsNotSentToWebhookAreSkipped(t *testing.T) {
	e := event("a", "one", sec(0))
	with := func(key string, value any) map[string]any {
		l := request("create", "a", 201, sec(0), e)
		l[key] = value
		return l
	}
	deletion := func(query string) map[string]any {
		l := request("deletecollection", "", 200, sec(0), nil)
		l["requestURI"] = "/api/v1/namespaces/shop/events?" + query
		return l
	}
	notice := event("n", "dropped 3 Events", sec(0))
	notice.Source.Component, notice.Reason = "eventquota", "EventsDropped"
	inSystem := event("a", "one", sec(0))
	inSystem.Namespace = "system"
	for says, test := range map[string]struct {
		line any
		why  string
	}{
		"a request at its beginning":         {with("stage", "RequestReceived"), "stages of a request before its response"},
		"a request about pods":               {with("objectRef", map[string]any{"resource": "pods", "namespace": "shop"}), "requests that do not write Events"},
		"Events of another group":            {with("objectRef", map[string]any{"resource": "events", "apiGroup": "tekton.dev"}), "requests that do not write Events"},
		"a read":                             {with("verb", "list"), "requests that do not write Events"},
		"a deletion by a label":              {deletion("labelSelector=app%3Dweb"), "deletions of some Events of a namespace, by a selector or a limit"},
		"a deletion by a field":              {deletion("fieldSelector=type%3DNormal"), "deletions of some Events of a namespace, by a selector or a limit"},
		"a deletion of a page":               {deletion("limit=500"), "deletions of some Events of a namespace, by a selector or a limit"},
		"a deletion as a dry run":            {request("deletecollection", "", 200, sec(0), `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`), "dry runs"},
		"a deletion of one as a dry run":     {request("delete", "a", 200, sec(0), `{"kind":"DeleteOptions","dryRun":["All"]}`), "dry runs"},
		"a deletion that came too often":     {request("deletecollection", "", 429, sec(0), nil), "requests that failed before or after admission"},
		"a deletion of another Event":        {request("delete", "a", 409, sec(0), `{"kind":"DeleteOptions","preconditions":{"uid":"b"}}`), "requests that failed before or after admission"},
		"a dry run":                          {with("requestURI", "/api/v1/namespaces/shop/events?dryRun=All"), "dry runs"},
		"the settler":                        {with("user", map[string]any{"username": "settler"}), "requests of exempt users"},
		"somebody as the settler":            {with("impersonatedUser", map[string]any{"username": "settler"}), "requests of exempt users"},
		"a request in an exempt namespace":   {with("objectRef", map[string]any{"resource": "events", "namespace": "system", "name": "a"}), "Events in exempt namespaces"},
		"an Event in an exempt namespace":    {inSystem, "Events in exempt namespaces"},
		"an Event that is not there":         {request("patch", "a", 404, sec(0), countPatch(2, sec(1))), "requests that failed before or after admission"},
		"a user without the right":           {request("create", "a", 403, sec(0), e), "requests that failed before or after admission"},
		"a server error":                     {request("create", "a", 500, sec(0), e), "requests that failed before or after admission"},
		"one that was refused at once":       {request("create", "a", 429, sec(0), nil), "requests that were rejected before their body was read"},
		"a notice":                           {request("create", "n", 201, sec(0), notice), "notices of eventquota"},
		"a notice in a watch":                {map[string]any{"type": "ADDED", "object": notice}, "notices of eventquota"},
		"a notice by itself":                 {notice, "notices of eventquota"},
		"a bookmark":                         {map[string]any{"type": "BOOKMARK", "object": map[string]any{"kind": "Event"}}, "bookmarks and errors of a watch"},
		"what the webhook merged":            {request("create", "a", 409, sec(0), e), ""},
		"what it merged otherwise":           {badRequest("update", "a", admission.ReasonMerged, sec(0), e), ""},
		"what the webhook dropped":           {badRequest("create", "a", admission.ReasonDropped, sec(0), e), ""},
		"what the webhook denied":            {badRequest("create", "a", admission.ReasonDenied, sec(0), e), ""},
		"what the webhook did not decide":    {badRequest("create", "a", admission.ReasonUndecided, sec(0), e), ""},
		"what another webhook refused":       {badRequest("create", "a", "", sec(0), e), "requests that failed before or after admission"},
		"what cannot be decoded":             {badRequest("create", "a", metav1.StatusReasonBadRequest, sec(0), nil), "requests that failed before or after admission"},
		"what the EventRateLimit plugin did": {request("create", "a", 429, sec(0), e), ""},
	} {
		t.Run(says, func(t *testing.T) {
			in := readAll(t, text(test.line)).Input
			if got := slices.Collect(maps.Keys(in.Skipped)); in.Broken != 0 || test.why != "" && !slices.Equal(got, []string{test.why}) ||
				test.why == "" && (len(got) != 0 || in.Most != 1) {
				t.Errorf("skipped for %q (%v), want for %q", got, in.BrokenLines, test.why)
			}
		})
	}
}

func TestBothEventAPIsAreEquivalent(t *testing.T) {
	e := &eventsv1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, EventTime: metav1.NewMicroTime(noon()),
		ReportingController: "scheduler", ReportingInstance: "scheduler-1", Action: "Bind", Reason: "Failed", Note: "no node", Type: "Warning",
		Regarding: event("", "", noon()).InvolvedObject,
		Series:    &eventsv1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(sec(9))},
	}
	got, err := decodeEvent([]byte(text(e)), false)
	if err != nil {
		t.Fatal(err)
	}
	if got.Message != "no node" || got.ReportingController != "scheduler" || got.ReportingInstance != "scheduler-1" || got.InvolvedObject.Name != "web-0" ||
		got.Action != "Bind" || got.Reason != "Failed" || got.Type != "Warning" || admission.Occurrences(got) != 7 || !got.EventTime.Time.Equal(noon()) {
		t.Errorf("decoded %+v", got)
	}
	if first, last := times(got); !first.Equal(noon()) || !last.Equal(sec(9)) {
		t.Errorf("from %s to %s, want from %s to %s", first, last, noon(), sec(9))
	}
}

func TestUnreadableFileIsNamed(t *testing.T) {
	failing := errors.New("disk is broken")
	for says, in := range map[string]io.Reader{
		"it fails at once":       iotest.ErrReader(failing),
		"it fails in the middle": io.MultiReader(strings.NewReader(text(event("a", "", sec(0)))), iotest.ErrReader(failing)),
		"a list of it fails":     io.MultiReader(strings.NewReader(`{"items":[`+strings.Repeat(" ", 64<<10)), iotest.ErrReader(failing)),
	} {
		t.Run(says, func(t *testing.T) {
			_, err := Read(t.Context(), []Source{NewSource("the-file", in)}, Exempt{})
			if !errors.Is(err, failing) || !strings.HasPrefix(err.Error(), "the-file: ") {
				t.Errorf("error %v, want that of the file with its name", err)
			}
		})
	}
}

// TestABodyIsTheSameInOnePass holds that an Event in a request, which is decoded together with it, is what it would be alone.
func TestABodyIsTheSameInOnePass(t *testing.T) {
	e := strings.TrimSpace(text(event("a", "one", noon())))
	for says, test := range map[string]struct {
		before, body string
		onePass      bool
	}{
		"an Event":                       {"", e, true},
		"an Event after white space":     {"", " \t " + e, true},
		"an Event of events.k8s.io":      {"", `{"apiVersion":"events.k8s.io/v1","kind":"Event","note":"n","regarding":{"name":"web-0"}}`, true},
		"the second of two":              {`"requestObject":{"action":"first","count":7},`, e, true},
		"the second after what is none":  {`"requestObject":[1],`, e, true},
		"what is none after the first":   {`"requestObject":` + e + ",", "[1]", false},
		"a field of another type":        {"", `{"count":"many"}`, false},
		"a field of another type before": {`"requestObject":{"count":"many"},`, e, false},
		"null":                           {"", "null", false},
		"a text":                         {"", `"left out"`, false},
	} {
		t.Run(says, func(t *testing.T) {
			line := line{}
			if err := line.decode([]byte(`{"verb":"create",` + test.before + `"requestObject" :` + test.body + ` ,"level":"Request"}`)); err != nil {
				t.Fatal(err)
			}
			if line.RequestObject.isEvent != test.onePass || line.Verb != "create" || line.Level != "Request" {
				t.Errorf("an Event %t, verb %s, level %s; want %t, create and Request", line.RequestObject.isEvent, line.Verb, line.Level, test.onePass)
			}
			body := strings.TrimSpace(test.body)
			if got := string(line.value(line.RequestObject.part)); got != body {
				t.Fatalf("body %q, want %q", got, body)
			}
			if body[0] != '{' {
				return
			}
			got, failed := line.written(false, &quickEvent{})
			want, err := decodeEvent([]byte(body), false)
			if fmt.Sprint(failed) != fmt.Sprint(err) {
				t.Errorf("error %v, want %v", failed, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Event (-want +got):\n%s", diff)
			}
		})
	}
}
