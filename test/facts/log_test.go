package facts

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/eventtest"
)

// A refusal in the validating phase is a line in the API server's log. One in the mutating
// phase leaves nothing there.
func (r *rig) refusalsAreLogged(t *testing.T) {
	r.namespace(t, "f37", nil)
	const mutating, validating = "refused for this while mutating", "refused for this while validating"
	for _, refusal := range []struct{ path, message string }{{"/mutate", mutating}, {"/validate", validating}} {
		r.respond("f37", func(c call) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{
				Allowed: c.path != refusal.path,
				Result:  &metav1.Status{Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: refusal.message},
			}
		})
		_, err := r.client.CoreV1().Events("f37").Create(t.Context(), eventtest.Core("f37", "a"), metav1.CreateOptions{})
		if !apierrors.IsTooManyRequests(err) {
			t.Fatalf("got %v, want TooManyRequests", err)
		}
	}
	// What the first refusal logs stands before what the second does.
	var refusals int
	cli.Eventually(t, "a line about the refusal in the validating phase", func() bool {
		refusals = r.logged(t, "rejected by webhook", validating)
		return refusals > 0
	})
	if refusals != 1 || r.logged(t, validating) != 1 {
		t.Errorf("the refusal in the validating phase is in %d lines, want 1", r.logged(t, validating))
	}
	if got := r.logged(t, mutating); got != 0 {
		t.Errorf("the refusal in the mutating phase is in %d lines, want none", got)
	}
}

// logged counts the lines of the API server's log that contain all parts.
func (r *rig) logged(t *testing.T, parts ...string) int {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(r.Dir, "plane-*", "kube-apiserver.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("find the API server's log below %s: %v", r.Dir, err)
	}
	var count int
	for _, log := range logs {
		content, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(content) {
			if !slices.ContainsFunc(parts, func(part string) bool { return !bytes.Contains(line, []byte(part)) }) {
				count++
			}
		}
	}
	return count
}
