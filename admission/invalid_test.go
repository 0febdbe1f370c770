package admission_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eventquota/eventquota/admission"
)

// reviewWith returns a review whose request has further members after the common ones.
func reviewWith(members string) string {
	return `{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "` + string(requestUID) +
		`", "kind": {"group": "", "version": "v1", "kind": "Event"}, "operation": "CREATE", "namespace": "default"` + members + `}}`
}

// reviewOfObject returns a review of a CREATE of an Event.
func reviewOfObject(text string) string { return reviewWith(`, "object": ` + text) }

// nestedJSON returns a JSON value with so many levels.
func nestedJSON(levels int) string {
	return strings.Repeat(`{"a":[`, levels/2) + strings.Repeat("]}", levels/2)
}

// TestInvalidReviews sends reviews that no API server sends; unreadable_test.go has more. Each gets a review as its answer,
// with an outcome of the mutating and of the validating phase, or a 4xx.
func TestInvalidReviews(t *testing.T) {
	t.Parallel()
	const (
		no       = ""
		ignored  = admission.Ignored
		admitted = admission.Admitted
	)
	tests := map[string]struct {
		body             string
		mutate, validate admission.Outcome
	}{
		"a review whose Event is good": {reviewOfObject(`{"metadata": {"name": "a"}}`), admitted, admitted},

		"an empty body":                {"", no, no},
		"no JSON":                      {"Event", no, no},
		"JSON that ends too early":     {`{"kind": "AdmissionReview", "request": {"uid": "1"`, no, no},
		"JSON that goes on":            {reviewOfObject(`{}`) + "{}", admitted, admitted},
		"a list":                       {"[]", no, no},
		"null":                         {"null", no, no},
		"another kind":                 {strings.Replace(reviewOfObject(`{}`), "AdmissionReview", "Event", 1), no, no},
		"no kind":                      {`{"request": {"uid": "1"}}`, no, no},
		"a kind of another type":       {`{"kind": 1, "request": {"uid": "1"}}`, no, no},
		"no request":                   {`{"kind": "AdmissionReview"}`, no, no},
		"a request that is null":       {`{"kind": "AdmissionReview", "request": null}`, no, no},
		"a request of another type":    {`{"kind": "AdmissionReview", "request": []}`, no, no},
		"no uid":                       {`{"kind": "AdmissionReview", "request": {}}`, no, no},
		"a uid of another type":        {`{"kind": "AdmissionReview", "request": {"uid": 1}}`, no, no},
		"a dryRun of another type":     {reviewWith(`, "dryRun": "yes"`), no, no},
		"many opening brackets":        {strings.Repeat("[", 4<<20), no, no},
		"JSON that is deep":            {reviewOfObject(`{"metadata": {"name": "a"}, "x": ` + nestedJSON(5_000) + `}`), admitted, admitted},
		"another kind of object":       {strings.Replace(reviewOfObject(`{"spec": {"containers": []}, "message": 7}`), `"kind": "Event"`, `"kind": "Pod"`, 1), ignored, ignored},
		"an operation not known":       {strings.Replace(reviewOfObject(`{}`), "CREATE", "TELEPORT", 1), ignored, ignored},
		"an operation of another type": {strings.Replace(reviewOfObject(`{}`), `"CREATE"`, "{}", 1), no, no},
		"an UPDATE from nothing":       {strings.Replace(reviewOfObject(`{"metadata": {"name": "a"}}`), "CREATE", "UPDATE", 1), ignored, admitted},

		"an object that is text":         {reviewOfObject(`"Event"`), admitted, admitted},
		"metadata of another type":       {reviewOfObject(`{"metadata": []}`), admitted, admitted},
		"a count that is no integer":     {reviewOfObject(`{"metadata": {"name": "a"}, "count": 1.5}`), admitted, admitted},
		"a message of another type":      {reviewOfObject(`{"metadata": {"name": "a"}, "message": {}}`), admitted, admitted},
		"an empty object":                {reviewOfObject("{}"), ignored, ignored},
		"every field empty":              {reviewOfObject(emptyEventJSON), ignored, ignored},
		"every field null":               {reviewOfObject(strings.NewReplacer(`""`, "null", "0", "null").Replace(emptyEventJSON)), ignored, ignored},
		"every field empty but the name": {reviewOfObject(strings.Replace(emptyEventJSON, `"name": ""`, `"name": "a"`, 1)), admitted, admitted},
		"a count below 0":                {reviewOfObject(`{"metadata": {"name": "a"}, "count": -2147483648, "series": {"count": -1}}`), admitted, admitted},
		"a distant time":                 {reviewOfObject(`{"metadata": {"name": "a"}, "lastTimestamp": "9999-12-31T23:59:59Z", "firstTimestamp": "0001-01-01T00:00:01Z"}`), admitted, admitted},
		"an invalid Event with a time":   {reviewOfObject(`{"metadata": {"name": "a"}, "eventTime": "9999-01-01T00:00:00.000000Z"}`), ignored, ignored},
		"a name with a slash":            {reviewOfObject(`{"metadata": {"name": "a/b"}}`), ignored, ignored},
		"keys that are there twice":      {reviewOfObject(`{"metadata": {"name": "a", "name": "b"}, "message": "1", "message": "2", "metadata": {}}`), admitted, admitted},
		"keys in other cases":            {reviewOfObject(`{"Metadata": {"Name": "x"}, "metadata": {"name": "a"}, "COUNT": "three"}`), admitted, admitted},
		"a message of 3 MB":              {reviewOfObject(`{"metadata": {"name": "a"}, "message": "` + strings.Repeat("€", 1<<20) + `"}`), admitted, admitted},
		"a message of control bytes":     {reviewOfObject(`{"metadata": {"name": "a"}, "message": "\u0000\u001b[2J\r\n\u2028\ud800"}`), admitted, admitted},
		"a message that is no UTF-8":     {reviewOfObject(`{"metadata": {"name": "a"}, "message": "` + strings.Repeat("\xff\xc0\x80", 1000) + `"}`), admitted, admitted},
		"a name of 3 MB":                 {reviewOfObject(`{"metadata": {"name": "` + strings.Repeat("a", 3<<20) + `"}}`), admitted, admitted},
	}
	for name, tt := range tests {
		for phase, want := range map[string]admission.Outcome{"mutate": tt.mutate, "validate": tt.validate} {
			t.Run(fmt.Sprintf("%s to %s: %s", name, phase, want), func(t *testing.T) {
				t.Parallel()
				s := newTestHandlers(newMemory(t))
				h := map[string]*admission.Handler{"mutate": s.mutate, "validate": s.validate}[phase]
				w := post(t, h, []byte(tt.body), longTimeout)
				got, wanted := fmt.Sprint(w.Code, s.outcomes), fmt.Sprintf("200 [%s]", want)
				if want == no {
					wanted = "400 []"
				}
				if got != wanted {
					t.Fatalf("status and outcomes %s, want %s; body %.200q", got, wanted, w.Body)
				}
				if want == no {
					return
				}
				if r := reviewResponse(t, w); r.UID != requestUID || !r.Allowed || !utf8.Valid(r.Patch) || len(r.Patch) > 4096 {
					t.Errorf("answer %.200q", w.Body)
				}
			})
		}
	}
}

const emptyEventJSON = `{"kind": "", "apiVersion": "", "metadata": {"name": "", "generateName": "", "namespace": "", "uid": "",
	"resourceVersion": "", "generation": 0, "creationTimestamp": null, "labels": {}, "annotations": {}, "managedFields": []},
	"involvedObject": {"kind": "", "namespace": "", "name": "", "uid": "", "apiVersion": "", "resourceVersion": "", "fieldPath": ""},
	"reason": "", "message": "", "source": {"component": "", "host": ""}, "firstTimestamp": null, "lastTimestamp": null, "count": 0,
	"type": "", "eventTime": null, "series": {"count": 0, "lastObservedTime": null}, "action": "",
	"related": {"kind": ""}, "reportingComponent": "", "reportingInstance": ""}`

// FuzzReview sends arbitrary bodies to both phases. It fails on a panic and on a status that is neither 200 nor 4xx. It also fails
// on an answer that the API server would not accept, or that changes more than the message and the name.
func FuzzReview(f *testing.F) {
	for _, body := range []string{
		"", "null", "[]", `{"kind": "AdmissionReview", "request": {"uid": "1"}}`,
		reviewWith(""), reviewOfObject("{}"), reviewOfObject(emptyEventJSON),
		reviewOfObject(strings.Replace(emptyEventJSON, `"name": ""`, `"name": "a"`, 1)),
		reviewOfObject(`{"metadata": {"generateName": "a."}, "message": "` + strings.Repeat("€", 400) + `"}`),
		reviewOfObject(`{"metadata": {"name": "a", "name": 7}, "count": -1}`),
		reviewOfObject(`{"metadata": {"name": "a"}, "lastTimestamp": "10000-02-29T00:00:00Z", "firstTimestamp": "-1-01-01T00:00:00Z"}`),
		strings.Replace(reviewWith(`, "object": {"metadata": {"name": "a"}, "count": 2}, "oldObject": {"metadata": {"name": "a"}, "count": 1}`), "CREATE", "UPDATE", 1),
		strings.Replace(reviewWith(`, "object": {"metadata": {"name": "a"}, "message": "b"}, "oldObject": {"message": "`+combined+`"}, "dryRun": true`), "CREATE", "UPDATE", 1),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := newTestHandlers(newMemory(t))
		for _, h := range []http.Handler{s.mutate, s.validate, s.mutate} {
			w := post(t, h, body, longTimeout)
			if w.Code >= 400 && w.Code < 500 {
				continue
			}
			a := reviewResponse(t, w)
			if uid, whole := parseUID(body); whole && string(a.UID) != uid {
				t.Errorf("answer to request %q, want %q", a.UID, uid)
			}
			if a.Patch == nil {
				continue
			}
			list, _ := parsePatch(t, a.Patch)
			for _, e := range list {
				if e.Op != "add" || e.Path != "/message" && e.Path != "/metadata/name" || len(e.Value) > 1100 || !utf8.ValidString(e.Value) {
					t.Errorf("patch %s", a.Patch)
				}
			}
		}
	})
}

// parseUID reads the uid of a review with a decoder that the handler does not use. It also reports
// whether all of body is JSON.
func parseUID(body []byte) (string, bool) {
	var review struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	err := json.Unmarshal(body, &review)
	return review.Request.UID, err == nil
}
