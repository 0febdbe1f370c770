package facts

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// The client gets the webhook's status as it is, but for the beginning of its message,
// and a Retry-After header if the status has that detail. This is seen without a
// client that would retry.
func (r *rig) denialReachesTheClient(t *testing.T) {
	var status metav1.Status
	r.namespace(t, "f5", func(call) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &status}
	})
	client, err := rest.HTTPClientFor(r.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		reason     metav1.StatusReason
		code       int32
		retryAfter int32 // seconds
		header     string
	}{
		{reason: metav1.StatusReasonAlreadyExists, code: http.StatusConflict},
		{reason: metav1.StatusReasonTooManyRequests, code: http.StatusTooManyRequests},
		{reason: metav1.StatusReasonTooManyRequests, code: http.StatusTooManyRequests, retryAfter: 7, header: "7"},
	} {
		details := &metav1.StatusDetails{Kind: "events", Name: "a", UID: "u", RetryAfterSeconds: test.retryAfter}
		status = metav1.Status{Code: test.code, Reason: test.reason, Message: "no more", Details: details}
		code, header, got := post(t, client, r.Config.Host+"api/v1/namespaces/f5/events", coreEvent("f5", "a"))
		want := metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure,
			Code:     test.code,
			Reason:   test.reason,
			Message:  `admission webhook "mutate.events.eventquota.io" denied the request: no more`,
			Details:  details,
		}
		if diff := cmp.Diff(want, got); diff != "" || code != int(test.code) {
			t.Errorf("got code %d with a status that differs (-want +got):\n%s", code, diff)
		}
		if retry := header.Get("Retry-After"); retry != test.header {
			t.Errorf("got Retry-After %q, want %q", retry, test.header)
		}
	}
}

// post creates an object by hand and returns a failure's status.
func post(t *testing.T, client *http.Client, url string, object any) (code int, header http.Header, status metav1.Status) {
	t.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, status
}
