package policyfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
)

// FuzzDecode reads anything as a policy or quota. An error is one line that says something, and what has none
// can be asked about an Event.
func FuzzDecode(f *testing.F) {
	examples, err := filepath.Glob("../../../manifests/examples/*.yaml")
	if err != nil || len(examples) == 0 {
		f.Fatalf("%d examples, %v", len(examples), err)
	}
	for _, path := range examples {
		document, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(document)
	}
	for _, document := range []string{
		"", "a: [", `{"kind":"List","apiVersion":"v1","items":[{},null,7]}`,
		`{"kind":"EventQuota","apiVersion":"eventquota.io/v1alpha1","metadata":{"namespace":"a","name":"b"},"spec":null}`,
		`{"kind":"ClusterEventPolicy","apiVersion":"eventquota.io/v1alpha1","metadata":{"name":"a"},"spec":{"match":{"conditions":[{"name":"a","expression":"event.count / 0 > 1"}]}}}`,
	} {
		f.Add([]byte(document))
	}
	shared, err := New()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		r := *shared
		r.known, r.Namespaces = map[policy.Identity]bool{}, map[string]policy.Namespace{}
		for _, err := range r.decode(document) {
			if says := err.Error(); says == "" || strings.Contains(says, "\n") {
				t.Errorf("error %q, want one line", says)
			}
		}
		for _, namespace := range []string{"a", "default"} {
			e := &corev1.Event{Type: corev1.EventTypeWarning, Reason: "BackOff"}
			if g := r.Set().For(t.Context(), namespace, e, &policy.Request{Namespace: namespace}); g.Policy == nil {
				t.Error("no policy governs")
			}
		}
	})
}
