package facts

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/eventtest"
)

// refusedGeneratedNameIsRetried checks refusals of a CREATE with generateName. The API server takes AlreadyExists in the validating phase for
// a collision of the generated name and tries seven more names. AlreadyExists in the mutating phase and TooManyRequests in either phase
// cost one call, so eventquota answers merged Events with them.
func (r *rig) refusedGeneratedNameIsRetried(t *testing.T) {
	r.namespace(t, "f36", nil)
	for _, test := range []struct {
		name       string
		path       string // path of the phase that refuses
		code       int32
		reason     metav1.StatusReason
		named      bool // the client sets a name too
		names      bool // the mutating phase sets a name
		validating int  // calls in the validating phase; the mutating phase always has one
	}{
		{name: "AlreadyExists while mutating", path: "/mutate", code: http.StatusConflict, reason: metav1.StatusReasonAlreadyExists},
		{name: "TooManyRequests while mutating", path: "/mutate", code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests},
		{name: "AlreadyExists while validating", path: "/validate",
			code: http.StatusConflict, reason: metav1.StatusReasonAlreadyExists, validating: 8},
		{name: "TooManyRequests while validating", path: "/validate",
			code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests, validating: 1},
		{name: "Conflict while validating", path: "/validate", code: http.StatusConflict, reason: metav1.StatusReasonConflict, validating: 1},
		{name: "AlreadyExists while validating, named while mutating", path: "/validate",
			code: http.StatusConflict, reason: metav1.StatusReasonAlreadyExists, names: true, validating: 1},
		{name: "AlreadyExists while validating, named by the client", path: "/validate",
			code: http.StatusConflict, reason: metav1.StatusReasonAlreadyExists, named: true, validating: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.respond("f36", func(c call) *admissionv1.AdmissionResponse {
				if c.path == test.path {
					return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: test.code, Reason: test.reason}}
				}
				response := &admissionv1.AdmissionResponse{Allowed: true}
				if test.names {
					response.PatchType = new(admissionv1.PatchTypeJSONPatch)
					response.Patch = []byte(`[{"op": "add", "path": "/metadata/name", "value": "given"}]`)
				}
				return response
			})
			event := eventtest.Core("f36", "")
			event.GenerateName = "generated-"
			if test.named {
				event.Name = "named"
			}
			_, err := r.client.CoreV1().Events("f36").Create(t.Context(), event, metav1.CreateOptions{})
			if got := apierrors.ReasonForError(err); got != test.reason {
				t.Errorf("got reason %q, want %q (error %v)", got, test.reason, err)
			}
			r.takeCalls(t, "f36", "/mutate", 1)
			names, uids := sets.New[string](), sets.New[types.UID]()
			for _, c := range r.takeCalls(t, "f36", "/validate", test.validating) {
				names.Insert(c.request.Name)
				uids.Insert(eventOf(t, c.request.Object.Raw).UID)
			}
			if names.Len() != test.validating || uids.Len() != test.validating {
				t.Errorf("%d calls had names %v and uids %v, want a different name and uid in each", test.validating, sets.List(names), sets.List(uids))
			}
		})
	}
}

// retryAfterReachesClient checks that details.retryAfterSeconds of a refusal becomes a Retry-After header. It does not use client-go, which
// would retry.
func (r *rig) retryAfterReachesClient(t *testing.T) {
	r.namespace(t, "retry", func(call) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{
			Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Details: &metav1.StatusDetails{RetryAfterSeconds: 7},
		}}
	})
	client, err := rest.HTTPClientFor(r.Config)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(eventtest.Core("retry", "a"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.Config.Host+"api/v1/namespaces/retry/events", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Retry-After"); response.StatusCode != http.StatusTooManyRequests || got != "7" {
		t.Errorf("got status %d and Retry-After %q, want 429 and 7", response.StatusCode, got)
	}
}
