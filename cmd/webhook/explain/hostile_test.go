package explain

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestTooManySamplesAreNotDecoded: in memory, an Event without content takes 200 times the length of its JSON.
func TestTooManySamplesAreNotDecoded(t *testing.T) {
	t.Parallel()
	body := `{"samples": [` + strings.Repeat(`{}, `, maxSamples+1) + `{"count": "many"}]}`
	if _, err := decodeQuestion([]byte(body), ""); err == nil || err.Error() != "samples: must have 1 to 64 items" {
		t.Errorf("error %v, want one about the number of samples, not about those beyond it", err)
	}
}

// unreadAnswer is the answer to a client that does not read it.
type unreadAnswer struct {
	*httptest.ResponseRecorder

	begun, release chan struct{}
}

// Write implements http.ResponseWriter.
func (a unreadAnswer) Write(content []byte) (int, error) {
	close(a.begun)
	<-a.release
	return len(content), nil
}

// TestUnreadAnswerKeepsNoTurn: a client that does not read its answer must not make others wait.
func TestUnreadAnswerKeepsNoTurn(t *testing.T) {
	t.Parallel()
	r := newExplainRig(t, "", "memory", newMemory(t))
	const body = `{"samples": [{"metadata": {"namespace": "storm"}, "involvedObject": {"namespace": "storm"}}]}`
	unread := unreadAnswer{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.endpoint.Config.Handler.ServeHTTP(unread, httptest.NewRequestWithContext(t.Context(), http.MethodPost, stormPath, strings.NewReader(body)))
	}()
	<-unread.begun
	if status, got := r.post(stormPath, body); status != http.StatusOK {
		t.Errorf("another question: status %d, body %q, want 200", status, got)
	}
	close(unread.release)
	<-done
}

// TestLongNamesMakeNoLongAnswers asks with a long name that each source, bucket or note of the answer might repeat.
func TestLongNamesMakeNoLongAnswers(t *testing.T) {
	t.Parallel()
	r := newExplainRig(t, `apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: many}
spec:
  limits:
  - {name: a, per: [Namespace, User], burst: 5, tokens: 1, interval: 1h}
  - {name: b, per: [Namespace, Reason], burst: 5, tokens: 1, interval: 1h}
  - {name: c, per: [Namespace, Reason, Type], burst: 5, tokens: 1, interval: 1h}
`, "memory", newMemory(t))
	r.write("operator", "Normal", "Synced", "synced")
	const writer = "system:serviceaccount:kube-system:operator"
	long := r.events[0]
	long.Reason = strings.Repeat("<", 200<<10)
	var own []string
	for range maxEvaluations {
		own = append(own, writer)
	}
	var sources []corev1.Event
	for i := range maxSamples {
		e := r.events[0]
		e.Source.Component = fmt.Sprint("source-", i)
		sources = append(sources, e)
	}
	for name, q := range map[string]question{
		"the same writer many times": {Samples: []corev1.Event{long}, Writers: own},
		"writers of many sources":    {Samples: sources, Writers: []string{strings.Repeat("<", maxWriterBytes), strings.Repeat(">", maxWriterBytes)}},
	} {
		var content strings.Builder
		encoder := json.NewEncoder(&content)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(q); err != nil {
			t.Fatal(err)
		}
		status, answer := r.post(stormPath, content.String())
		if status != http.StatusOK || len(answer) > 4*maxQuestionBytes {
			t.Errorf("%s: status %d, and %d bytes for a question of %d", name, status, len(answer), content.Len())
		}
	}
}

// TestNamespaceWaitsWithOneQuestion: a namespace that asks all the time must leave turns to others.
func TestNamespaceWaitsWithOneQuestion(t *testing.T) {
	t.Parallel()
	stuck := stuckStore{asked: make(chan struct{}, 2), release: make(chan struct{})}
	r := newExplainRig(t, "", "redis", stuck)
	ask := func(namespace string) (int, string) {
		return r.post("/namespaces/"+namespace+"/explain", strings.ReplaceAll(
			`{"samples": [{"metadata": {"namespace": "x"}, "involvedObject": {"namespace": "x"}}]}`, "\"x\"", `"`+namespace+`"`))
	}
	statuses := make(chan int, 2)
	answer := func(namespace string) {
		status, _ := ask(namespace)
		statuses <- status
	}
	go answer("storm")
	<-stuck.asked
	if status, body := ask("storm"); status != http.StatusServiceUnavailable || !strings.Contains(body, "busy with another question about this namespace") {
		t.Errorf("a second question about storm: status %d, body %q, want 503 at once", status, body)
	}
	go answer("calm")
	close(stuck.release)
	for range 2 {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("status %d, want 200", status)
		}
	}
}
