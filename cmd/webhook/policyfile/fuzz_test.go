package policyfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/policy"
)

// FuzzRead reads arbitrary bytes as a file of policies and quotas. Each error must be one line with a reason and a
// position inside the file, and the valid rules must resolve an Event.
func FuzzRead(f *testing.F) {
	examples, err := filepath.Glob("../../../manifests/examples/*.yaml")
	if err != nil || len(examples) == 0 {
		f.Fatalf("%d examples, error %v", len(examples), err)
	}
	for _, path := range examples {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	for _, content := range []string{
		"", "a: [", `{"kind":"List","apiVersion":"v1","items":[{},null,7]}`,
		`{"kind":"EventQuota","apiVersion":"eventquota.io/v1alpha1","metadata":{"namespace":"a","name":"b"},"spec":null}`,
		`{"kind":"ClusterEventPolicy","apiVersion":"eventquota.io/v1alpha1","metadata":{"name":"a"},"spec":{"match":{"conditions":[{"name":"a","expression":"event.count / 0 > 1"}]}}}`,
		`{"kind":"EventPolicyList","apiVersion":"eventquota.io/v1alpha1","items":[{"metadata":{"namespace":"a","name":"b","labels":7}}]}`,
		"\ufeff%YAML 1.1\r\n--- # first\r\nkind: EventPolicy\r\n...\r\n---\rkind: &a [*a]\r---\napiVersion: eventquota.io/v1alpha1\n<<: {kind: EventQuota}\nkind: 7\nkind: 8\n",
		"apiVersion: eventquota.io/v1alpha1\nkind: {{ .Values.kind }}\n",
		"apiVersion: eventquota.io/v1alpha1\nkind: EventPolicy\nmetadata:\n\tname: a\n",
	} {
		f.Add([]byte(content))
	}
	shared, err := New()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		r := shared.empty()
		for _, doc := range document.Parse("f", content) {
			r.addDocument(doc, false)
		}
		r.applyBounds()
		lines := 1 + strings.Count(strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n").Replace(string(content)), "\n")
		for _, err := range r.Invalid {
			p, ok := errors.AsType[*InvalidError](err)
			if !ok {
				t.Fatalf("error %v has no position", err)
			}
			if message := p.Error(); p.Reason == "" || strings.ContainsAny(message, "\n\r") || p.Line < 1 || p.Line > lines || p.Column < 0 {
				t.Errorf("error %q, want one line with a reason and a position within %d lines", message, lines)
			}
		}
		for _, namespace := range []string{"a", "default"} {
			e := &corev1.Event{Type: corev1.EventTypeWarning, Reason: "BackOff"}
			if g := r.Set().Resolve(t.Context(), namespace, e, &policy.Request{Namespace: namespace}); g.Policy == nil {
				t.Errorf("no policy governs an Event in namespace %s", namespace)
			}
		}
	})
}
