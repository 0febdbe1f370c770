package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlog "sigs.k8s.io/controller-runtime/pkg/log"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// The benchmarks compare handlers in-process, each answering reviews of the
// CREATE of Events about objects that are all different, so that every one is
// admitted.

// BenchmarkMutate is the mutating phase of this webhook.
func BenchmarkMutate(b *testing.B) { benchmark(b, newBenchHandler(b).mutate) }

// BenchmarkValidate is its validating phase.
func BenchmarkValidate(b *testing.B) { benchmark(b, newBenchHandler(b).validate) }

// BenchmarkDefault is the way that controller-runtime offers: a typed
// validator, here one that allows all.
func BenchmarkDefault(b *testing.B) {
	s := scheme(b)
	ctrlog.SetLogger(logr.Discard())
	benchmark(b, ctrladmission.WithValidator(s, allowAll{}))
}

// BenchmarkPlain is the least that a webhook can do: decode the review and the
// Event, and allow it.
func BenchmarkPlain(b *testing.B) {
	benchmark(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var review admissionv1.AdmissionReview
		var event corev1.Event
		if json.Unmarshal(body, &review) != nil || json.Unmarshal(review.Request.Object.Raw, &event) != nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		review.Request, review.Response = nil, &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
}

func newBenchHandler(b *testing.B) *served {
	b.Helper()
	s := &served{gate: newGate(newMemory(b), policy.Default())}
	inFlight := admission.NewPlaces(256)
	phase := func(p admission.Phase) *admission.Handler {
		return &admission.Handler{Gate: s.gate, Phase: p, Count: func(admission.Outcome) {}, MaxBytes: maxBytes, InFlight: inFlight, Deadline: time.Hour}
	}
	s.mutate, s.validate = phase(s.gate.Mutate), phase(s.gate.Validate)
	return s
}

type allowAll struct{}

var _ ctrladmission.Validator[*corev1.Event] = allowAll{}

func (allowAll) ValidateCreate(context.Context, *corev1.Event) (ctrladmission.Warnings, error) {
	return nil, nil
}
func (allowAll) ValidateUpdate(context.Context, *corev1.Event, *corev1.Event) (ctrladmission.Warnings, error) {
	return nil, nil
}
func (allowAll) ValidateDelete(context.Context, *corev1.Event) (ctrladmission.Warnings, error) {
	return nil, nil
}

// benchmark has h answer reviews, one after the other.
func benchmark(b *testing.B, h http.Handler) {
	b.Helper()
	const mark = "0000000000"
	body := benchReview(b, mark)
	var marks []int
	for at := 0; ; {
		i := bytes.Index(body[at:], []byte(mark))
		if i < 0 {
			break
		}
		marks = append(marks, at+i)
		at += i + len(mark)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		number := fmt.Appendf(make([]byte, 0, len(mark)), "%010d", i)
		for _, at := range marks {
			copy(body[at:], number)
		}
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/"+unhurried, bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != http.StatusOK || !bytes.Contains(w.Body.Bytes(), []byte(`"allowed":true`)) {
			b.Fatalf("status %d, body %s", w.Code, w.Body)
		}
	}
}

// benchReview is a review of the Event of a mark, as an API server sends it.
func benchReview(b testing.TB, mark string) []byte {
	b.Helper()
	e := newRequest(epoch(), "web-"+mark+".18a2b3c4d5e6f708", details{about("web-" + mark), message(
		"Back-off restarting failed container web in pod web-" + mark + "_default(3f2b6a50-7a0b-4a5e-9d60-8a7ff2d1c0de)")}).Object
	e.CreationTimestamp = metav1.NewTime(epoch())
	e.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &e.CreationTimestamp, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{},"f:lastTimestamp":{},"f:message":{},"f:reason":{},"f:reportingComponent":{},"f:reportingInstance":{},"f:source":{"f:component":{},"f:host":{}},"f:type":{}}`),
	}}
	raw, err := json.Marshal(e)
	if err != nil {
		b.Fatal(err)
	}
	var review admissionv1.AdmissionReview
	review.Kind, review.APIVersion = "AdmissionReview", "admission.k8s.io/v1"
	review.Request = &admissionv1.AdmissionRequest{
		UID:  requestUID,
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Event"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "events"},
		RequestKind: &metav1.GroupVersionKind{Version: "v1", Kind: "Event"}, RequestResource: &metav1.GroupVersionResource{Version: "v1", Resource: "events"},
		Name: e.Name, Namespace: "default", Operation: admissionv1.Create, DryRun: new(bool),
	}
	review.Request.UserInfo.Username = "system:node:node-1"
	review.Request.UserInfo.Groups = []string{"system:nodes", "system:authenticated"}
	review.Request.Object.Raw = raw
	body, err := json.Marshal(review)
	if err != nil {
		b.Fatal(err)
	}
	return body
}
