package watch_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestListIsStreamed has API servers that write lists with their fields in different orders, and some that are no lists. The
// items before an error are used, and the error is returned.
func TestListIsStreamed(t *testing.T) {
	t.Parallel()
	const a, b = `{"metadata":{"name":"a"}}`, `{"metadata":{"name":"b"}}`
	for says, test := range map[string]struct {
		body, taken, fails string
	}{
		"items first":            {body: `{"items":[` + a + `,` + b + `],"kind":"List","metadata":{"continue":"next","resourceVersion":"7"}}`, taken: "a b next 7"},
		"items last":             {body: `{"metadata":{"resourceVersion":"7"},"x":{"items":[1]},"items":[` + a + `]}`, taken: "a  7"},
		"none":                   {body: `{"items":[],"metadata":{"resourceVersion":"7"}}`, taken: " 7"},
		"null":                   {body: `{"items":null,"metadata":{"resourceVersion":"7"}}`, taken: " 7"},
		"no items":               {body: `{"metadata":{"resourceVersion":"7"}}`, taken: " 7"},
		"one that breaks off":    {body: `{"items":[` + a + `,{"metadata":`, taken: "a  ", fails: "unexpected EOF"},
		"nothing":                {fails: "EOF", taken: " "},
		"one with other items":   {body: `{"items":{}}`, fails: "it is no list: { before byte 10", taken: " "},
		"one that is an array":   {body: `[]`, fails: "it is no list: [ before byte 1", taken: " "},
		"an item that is a text": {body: `{"items":["a"]}`, fails: "cannot unmarshal string", taken: " "},
	} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, test.body)
		}))
		t.Cleanup(api.Close)
		sources := sourcesOf(t, &rest.Config{Host: api.URL, QPS: -1})
		sources.Rules["Namespace"] = sources.Namespaces
		for kind, source := range sources.Rules {
			var taken []string
			read, err := source.List(t.Context(), "", metav1.ListOptions{}, func(o metav1.Object) { taken = append(taken, o.GetName()) })
			got := strings.Join(append(taken, read.Continue, read.ResourceVersion), " ")
			if got != test.taken || (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%s of %s: %q, %v, want %q, %q", says, kind, got, err, test.taken, test.fails)
			}
		}
	}
}

func TestRefusedListReturnsReason(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGone)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
	}))
	t.Cleanup(api.Close)
	sources := sourcesOf(t, &rest.Config{Host: api.URL, QPS: -1})
	sources.Rules["Namespace"] = sources.Namespaces
	for kind, source := range sources.Rules {
		_, err := source.List(t.Context(), "", metav1.ListOptions{}, func(metav1.Object) { t.Error("something is taken in") })
		if !apierrors.IsResourceExpired(err) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
