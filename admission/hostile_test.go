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

// asks is a review whose request has members after those that every one has.
func asks(members string) string {
	return `{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "` + string(requestUID) +
		`", "kind": {"group": "", "version": "v1", "kind": "Event"}, "operation": "CREATE", "namespace": "default"` + members + `}}`
}

// object is a review of a CREATE of an Event.
func object(text string) string { return asks(`, "object": ` + text) }

// nested is a value of JSON that many levels deep.
func nested(levels int) string {
	return strings.Repeat(`{"a":[`, levels/2) + strings.Repeat("]}", levels/2)
}

// TestHostileReviews sends reviews that no API server sends, and unreadable_test.go others. Each is answered with a review that counts as an outcome
// of the mutating and the validating phase, or with a 4xx.
func TestHostileReviews(t *testing.T) {
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
		"a review whose Event is good": {object(`{"metadata": {"name": "a"}}`), admitted, admitted},

		"an empty body":                {"", no, no},
		"no JSON":                      {"Event", no, no},
		"JSON that ends too early":     {`{"kind": "AdmissionReview", "request": {"uid": "1"`, no, no},
		"JSON that goes on":            {object(`{}`) + "{}", admitted, admitted},
		"a list":                       {"[]", no, no},
		"null":                         {"null", no, no},
		"another kind":                 {strings.Replace(object(`{}`), "AdmissionReview", "Event", 1), no, no},
		"no kind":                      {`{"request": {"uid": "1"}}`, no, no},
		"a kind of another type":       {`{"kind": 1, "request": {"uid": "1"}}`, no, no},
		"no request":                   {`{"kind": "AdmissionReview"}`, no, no},
		"a request that is null":       {`{"kind": "AdmissionReview", "request": null}`, no, no},
		"a request of another type":    {`{"kind": "AdmissionReview", "request": []}`, no, no},
		"no uid":                       {`{"kind": "AdmissionReview", "request": {}}`, no, no},
		"a uid of another type":        {`{"kind": "AdmissionReview", "request": {"uid": 1}}`, no, no},
		"a dryRun of another type":     {asks(`, "dryRun": "yes"`), no, no},
		"many opening brackets":        {strings.Repeat("[", 4<<20), no, no},
		"JSON that is deep":            {object(`{"metadata": {"name": "a"}, "x": ` + nested(5_000) + `}`), admitted, admitted},
		"another kind of object":       {strings.Replace(object(`{"spec": {"containers": []}, "message": 7}`), `"kind": "Event"`, `"kind": "Pod"`, 1), ignored, ignored},
		"an operation not known":       {strings.Replace(object(`{}`), "CREATE", "TELEPORT", 1), ignored, ignored},
		"an operation of another type": {strings.Replace(object(`{}`), `"CREATE"`, "{}", 1), no, no},
		"an UPDATE from nothing":       {strings.Replace(object(`{"metadata": {"name": "a"}}`), "CREATE", "UPDATE", 1), ignored, admitted},

		"an object that is text":         {object(`"Event"`), admitted, admitted},
		"metadata of another type":       {object(`{"metadata": []}`), admitted, admitted},
		"a count that is no integer":     {object(`{"metadata": {"name": "a"}, "count": 1.5}`), admitted, admitted},
		"a message of another type":      {object(`{"metadata": {"name": "a"}, "message": {}}`), admitted, admitted},
		"an empty object":                {object("{}"), ignored, ignored},
		"every field empty":              {object(empty), ignored, ignored},
		"every field null":               {object(strings.NewReplacer(`""`, "null", "0", "null").Replace(empty)), ignored, ignored},
		"every field empty but the name": {object(strings.Replace(empty, `"name": ""`, `"name": "a"`, 1)), admitted, admitted},
		"a count below 0":                {object(`{"metadata": {"name": "a"}, "count": -2147483648, "series": {"count": -1}}`), admitted, admitted},
		"a distant time":                 {object(`{"metadata": {"name": "a"}, "lastTimestamp": "9999-12-31T23:59:59Z", "firstTimestamp": "0001-01-01T00:00:01Z"}`), admitted, admitted},
		"an invalid Event with a time":   {object(`{"metadata": {"name": "a"}, "eventTime": "9999-01-01T00:00:00.000000Z"}`), ignored, ignored},
		"a name with a slash":            {object(`{"metadata": {"name": "a/b"}}`), ignored, ignored},
		"keys that are there twice":      {object(`{"metadata": {"name": "a", "name": "b"}, "message": "1", "message": "2", "metadata": {}}`), admitted, admitted},
		"keys in other cases":            {object(`{"Metadata": {"Name": "x"}, "metadata": {"name": "a"}, "COUNT": "three"}`), admitted, admitted},
		"a message of 3 MB":              {object(`{"metadata": {"name": "a"}, "message": "` + strings.Repeat("€", 1<<20) + `"}`), admitted, admitted},
		"a message of control bytes":     {object(`{"metadata": {"name": "a"}, "message": "\u0000\u001b[2J\r\n\u2028\ud800"}`), admitted, admitted},
		"a message that is no UTF-8":     {object(`{"metadata": {"name": "a"}, "message": "` + strings.Repeat("\xff\xc0\x80", 1000) + `"}`), admitted, admitted},
		"a name of 3 MB":                 {object(`{"metadata": {"name": "` + strings.Repeat("a", 3<<20) + `"}}`), admitted, admitted},
	}
	for name, tt := range tests {
		for phase, want := range map[string]admission.Outcome{"mutate": tt.mutate, "validate": tt.validate} {
			t.Run(fmt.Sprintf("%s to %s: %s", name, phase, want), func(t *testing.T) {
				t.Parallel()
				s := serve(newMemory(t))
				h := map[string]*admission.Handler{"mutate": s.mutate, "validate": s.validate}[phase]
				w := post(t, h, []byte(tt.body), unhurried)
				got, wanted := fmt.Sprint(w.Code, s.counted), fmt.Sprintf("200 [%s]", want)
				if want == no {
					wanted = "400 []"
				}
				if got != wanted {
					t.Fatalf("status and outcomes %s, want %s; body %.200q", got, wanted, w.Body)
				}
				if want == no {
					return
				}
				if r := answered(t, w); r.UID != requestUID || !r.Allowed || !utf8.Valid(r.Patch) || len(r.Patch) > 4096 {
					t.Errorf("answer %.200q", w.Body)
				}
			})
		}
	}
}

const empty = `{"kind": "", "apiVersion": "", "metadata": {"name": "", "generateName": "", "namespace": "", "uid": "",
	"resourceVersion": "", "generation": 0, "creationTimestamp": null, "labels": {}, "annotations": {}, "managedFields": []},
	"involvedObject": {"kind": "", "namespace": "", "name": "", "uid": "", "apiVersion": "", "resourceVersion": "", "fieldPath": ""},
	"reason": "", "message": "", "source": {"component": "", "host": ""}, "firstTimestamp": null, "lastTimestamp": null, "count": 0,
	"type": "", "eventTime": null, "series": {"count": 0, "lastObservedTime": null}, "action": "",
	"related": {"kind": ""}, "reportingComponent": "", "reportingInstance": ""}`

// FuzzReview sends anything to both phases. It fails on a panic, on a status that is neither 200 nor 4xx, and on an
// answer that the API server would not take or that changes more than a message and a name.
func FuzzReview(f *testing.F) {
	for _, body := range []string{
		"", "null", "[]", `{"kind": "AdmissionReview", "request": {"uid": "1"}}`,
		asks(""), object("{}"), object(empty),
		object(strings.Replace(empty, `"name": ""`, `"name": "a"`, 1)),
		object(`{"metadata": {"generateName": "a."}, "message": "` + strings.Repeat("€", 400) + `"}`),
		object(`{"metadata": {"name": "a", "name": 7}, "count": -1}`),
		object(`{"metadata": {"name": "a"}, "lastTimestamp": "10000-02-29T00:00:00Z", "firstTimestamp": "-1-01-01T00:00:00Z"}`),
		strings.Replace(asks(`, "object": {"metadata": {"name": "a"}, "count": 2}, "oldObject": {"metadata": {"name": "a"}, "count": 1}`), "CREATE", "UPDATE", 1),
		strings.Replace(asks(`, "object": {"metadata": {"name": "a"}, "message": "b"}, "oldObject": {"message": "`+combined+`"}, "dryRun": true`), "CREATE", "UPDATE", 1),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := serve(newMemory(t))
		for _, h := range []http.Handler{s.mutate, s.validate, s.mutate} {
			w := post(t, h, body, unhurried)
			if w.Code >= 400 && w.Code < 500 {
				continue
			}
			a := answered(t, w)
			if uid, whole := uidOf(body); whole && string(a.UID) != uid {
				t.Errorf("answer to request %q, want %q", a.UID, uid)
			}
			if a.Patch == nil {
				continue
			}
			list, _ := editsOf(t, a.Patch)
			for _, e := range list {
				if e.Op != "add" || e.Path != "/message" && e.Path != "/metadata/name" || len(e.Value) > 1100 || !utf8.ValidString(e.Value) {
					t.Errorf("patch %s", a.Patch)
				}
			}
		}
	})
}

// uidOf reads the uid of a review by a decoder that the handler does not use. It reports
// whether body is JSON to its end.
func uidOf(body []byte) (string, bool) {
	var review struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	err := json.Unmarshal(body, &review)
	return review.Request.UID, err == nil
}
