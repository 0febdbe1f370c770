package facts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// ownReason is a reason that Kubernetes does not know.
const ownReason metav1.StatusReason = "EventMerged"

// refusedGeneratedNameIsRetried checks refusals of a CREATE with generateName. The API server takes AlreadyExists in the validating phase for
// a collision of the generated name and tries seven more names. 400 with a reason of its own costs one call in either phase, so eventquota
// refuses such Events with it.
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
		{name: "400 while mutating", path: "/mutate", code: http.StatusBadRequest, reason: ownReason},
		{name: "AlreadyExists while validating", path: "/validate",
			code: http.StatusConflict, reason: metav1.StatusReasonAlreadyExists, validating: 8},
		{name: "400 while validating", path: "/validate", code: http.StatusBadRequest, reason: ownReason, validating: 1},
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
			wantStatus(t, err, test.code, test.reason)
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

// refusedUpdateIsOneCall checks that the API server reviews a refused PATCH or PUT once, and passes on the code and the reason. The
// refusals are AlreadyExists, and 400 with a reason of its own. Both reviews have UpdateOptions, so no webhook can answer a PATCH and a
// PUT differently.
func (r *rig) refusedUpdateIsOneCall(t *testing.T) {
	r.namespace(t, "f40", nil)
	events := r.client.CoreV1().Events("f40")
	stored, err := events.Create(t.Context(), eventtest.Core("f40", "a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.takePaths("f40")
	for verb, write := range map[string]func() error{
		"a PATCH": func() error {
			_, err := events.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{})
			return err
		},
		"a PUT": func() error {
			changed := stored.DeepCopy()
			changed.Count = 2
			_, err := events.Update(t.Context(), changed, metav1.UpdateOptions{})
			return err
		},
	} {
		for reason, code := range map[metav1.StatusReason]int32{
			metav1.StatusReasonAlreadyExists: http.StatusConflict,
			ownReason:                        http.StatusBadRequest,
		} {
			t.Run(fmt.Sprint(verb, " refused with ", reason), func(t *testing.T) {
				r.respond("f40", func(call) *admissionv1.AdmissionResponse {
					return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: code, Reason: reason}}
				})
				wantStatus(t, write(), code, reason)
				var options metav1.TypeMeta
				for _, c := range r.takeCalls(t, "f40", "/validate", 1) {
					if err := json.Unmarshal(c.request.Options.Raw, &options); err != nil || options.Kind != "UpdateOptions" {
						t.Errorf("got options %s (%v), want UpdateOptions", c.request.Options.Raw, err)
					}
				}
				if got := r.takePaths("f40"); len(got) > 0 {
					t.Errorf("%v are called too, want only /validate", got)
				}
			})
		}
	}
}

// wantStatus checks the code and the reason of a failed request.
func wantStatus(t *testing.T, err error, code int32, reason metav1.StatusReason) {
	t.Helper()
	failed, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || failed.ErrStatus.Code != code || failed.ErrStatus.Reason != reason {
		t.Errorf("got %v, want status %d with the reason %q", err, code, reason)
	}
}

// retryAfterReachesClient checks that details.retryAfterSeconds of a refusal becomes a Retry-After header, whatever its code is.
func (r *rig) retryAfterReachesClient(t *testing.T) {
	r.namespace(t, "retry", func(call) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{
			Code: http.StatusBadRequest, Reason: ownReason, Details: &metav1.StatusDetails{RetryAfterSeconds: 7},
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
	if got := response.Header.Get("Retry-After"); response.StatusCode != http.StatusBadRequest || got != "7" {
		t.Errorf("got status %d and Retry-After %q, want 400 and 7", response.StatusCode, got)
	}
}
