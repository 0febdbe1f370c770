package facts

import (
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A CREATE on an existing name reaches etcd, one that admission denies does not.
func (r *rig) refusalCosts(t *testing.T) {
	r.namespace(t, "f8", func(c call) *admissionv1.AdmissionResponse {
		if !strings.HasPrefix(c.request.Name, "denied") {
			return &admissionv1.AdmissionResponse{Allowed: true}
		}
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists}}
	})
	events := r.client.CoreV1().Events("f8")
	if _, err := events.Create(t.Context(), coreEvent("f8", "exists"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const refusals = 50
	for name, writes := range map[string]int64{"exists": refusals, "denied": 0} {
		before, err := r.EventWrites(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		proposals, err := r.Proposals(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range refusals {
			if _, err := events.Create(t.Context(), coreEvent("f8", name), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
				t.Fatalf("got %v, want AlreadyExists", err)
			}
		}
		after, err := r.EventWrites(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		proposalsAfter, err := r.Proposals(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := after - before; got != writes {
			t.Errorf("%s: %d Event writes reached etcd, want %d", name, got, writes)
		}
		// The control plane writes a little for itself meanwhile.
		if got := proposalsAfter - proposals; got < writes || got >= writes+refusals {
			t.Errorf("%s: etcd committed %d proposals, want about %d", name, got, writes)
		}
	}
}
