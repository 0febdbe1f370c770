package admission_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

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
			var list []edit
			if err := json.Unmarshal(a.Patch, &list); err != nil {
				t.Errorf("patch %s: %v", a.Patch, err)
			}
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
