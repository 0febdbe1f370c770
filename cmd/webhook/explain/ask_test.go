package explain

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestQuestionsCoverAllSources makes questions of random stored Events. A replica must accept each question, and each source must be in
// one of them. Each type and reason of a source must have a sample, or there must be a note.
func TestQuestionsCoverAllSources(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 0))
		var events []corev1.Event
		for s := range 1 + random.IntN(60) {
			kinds := 1 + random.IntN(1+random.IntN(100))
			for kind := range kinds {
				for message := range 1 + random.IntN(5) {
					e := corev1.Event{
						ObjectMeta:     metav1.ObjectMeta{Namespace: "storm", Name: fmt.Sprint(len(events))},
						InvolvedObject: corev1.ObjectReference{Namespace: "storm", Name: "web-0"},
						Source:         corev1.EventSource{Component: fmt.Sprint("source-", s)},
						Type:           []string{"Normal", "Warning"}[kind%2], Reason: fmt.Sprint("Reason", kind/2), Message: fmt.Sprint(message),
					}
					e.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`)}}
					if random.IntN(100) == 0 {
						e.Message = strings.Repeat("x", random.IntN(2*maxQuestionBytes))
					}
					events = append(events, e)
				}
			}
		}
		var writers []string
		for n := range random.IntN(10) {
			writers = append(writers, fmt.Sprint("writer-", n))
		}
		var r report
		sources := sourcesOf(events)
		batches := r.batches(sources, writers)
		asked, samples := map[*source]int{}, map[string]int{}
		for i, b := range batches {
			content, err := json.Marshal(&b.question)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := decodeQuestion(content, "storm"); err != nil || len(content) > maxQuestionBytes || len(b.of) != len(b.Samples) {
				t.Fatalf("seed %d: error %v for a question of %d bytes, with %d Events of %d sources", seed, err, len(content), len(b.Samples), len(b.of))
			}
			for j, e := range b.Samples {
				if before, known := asked[b.of[j]]; known && before != i || b.of[j].Component != e.Source.Component || e.ManagedFields != nil {
					t.Fatalf("seed %d: %+v is in questions %d and %d, with sample %+v", seed, b.of[j], before, i, e)
				}
				asked[b.of[j]] = i
				samples[e.Source.Component+e.Type+e.Reason]++
			}
		}
		noted := strings.Join(r.Notes, "\n")
		for _, e := range events {
			if n := samples[e.Source.Component+e.Type+e.Reason]; n > maxMessages || n == 0 && !strings.Contains(noted, " of "+e.Source.Component+" are too many or too large") {
				t.Fatalf("seed %d: %d samples of %s %s of %s, notes %s", seed, n, e.Type, e.Reason, e.Source.Component, noted)
			}
		}
	}
}

// TestSamplesHaveSeveralMessages checks that policies for other messages of the same reason are in the report.
func TestSamplesHaveSeveralMessages(t *testing.T) {
	r := newExplainRig(t, `apiVersion: eventquota.io/v1alpha1
kind: EventPolicy
metadata: {name: probes, namespace: storm}
spec:
  match: {messages: ['probe *']}
`, "memory", newMemory(t))
	for _, message := range []string{"started", "probe failed", "stopped", "stopped again"} {
		r.write("operator", "Normal", "Synced", message)
	}
	s := r.report().Sources[0]
	if len(s.Policies) != 2 || s.Policies[0].Name != "default" || s.Policies[1].Name != "EventPolicy storm/probes" {
		t.Errorf("policies %+v, want the default and probes", s.Policies)
	}
}

func TestMalformedAnswersAreRefused(t *testing.T) {
	t.Parallel()
	for _, sample := range []int{-1, 1} {
		b := &batch{of: []*source{{}}}
		if err := new(report).add(b, &answer{Sources: []answeredSource{{Sample: sample}}}); err == nil || err.Error() != "explain: the answer of the replica is malformed" {
			t.Errorf("sample %d: error %v, want one about a malformed answer", sample, err)
		}
	}
}
