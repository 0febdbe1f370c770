package facts

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/eventtest"
)

// refusalsAreLogged checks that a refusal in the validating phase takes one line in the API server's log, and one in the mutating phase none.
func (r *rig) refusalsAreLogged(t *testing.T) {
	r.namespace(t, "f37", nil)
	const mutating, validating = "refused in the mutating phase", "refused in the validating phase"
	for _, refusal := range []struct{ path, message string }{{"/mutate", mutating}, {"/validate", validating}} {
		r.respond("f37", func(c call) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{
				Allowed: c.path != refusal.path,
				Result:  &metav1.Status{Code: http.StatusBadRequest, Reason: ownReason, Message: refusal.message},
			}
		})
		_, err := r.client.CoreV1().Events("f37").Create(t.Context(), eventtest.Core("f37", "a"), metav1.CreateOptions{})
		if err == nil {
			t.Fatal("the Event is stored, want it refused")
		}
	}
	// Lines of the first refusal, if any, precede those of the second.
	var refusals int
	cli.Eventually(t, "the API server logs the refusal in the validating phase", func() bool {
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
		t.Fatalf("find the API server's log in %s: %v", r.Dir, err)
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
