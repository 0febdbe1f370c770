package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"text/template"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/metrics"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// How many allocations a review may cost, from its HTTP request to its answer, beside those of the server: of a CREATE at
// /mutate, and of an UPDATE at /validate.
const (
	mutateAllocs   = 37
	validateAllocs = 38
	// mostAllocs is how many of them are not the store's, whatever becomes of the Event. The race detector costs two.
	mostAllocs = 23 + 2
)

// TestAReviewAllocatesAsLittleAsDocsPromise asks what make bench does: the same reviews, with the store in memory and metrics.
func TestAReviewAllocatesAsLittleAsDocsPromise(t *testing.T) {
	for phase, most := range map[string]float64{"mutate": mutateAllocs, "validate": validateAllocs} {
		t.Run(phase, func(t *testing.T) {
			gate, recorder := newGate(newMemory(t), defaults()), &counting{Recorder: metrics.New("test"), outcomes: outcomes{}}
			gate.Recorder = recorder
			h := handlerOf(gate, map[string]admission.Phase{"mutate": gate.Mutate, "validate": gate.Validate}[phase], 1)
			review := benchmarks(t, phase == "validate")
			const runs = 200
			bodies := make([][]byte, 2*runs) // each run has one before that is not counted
			for i := range bodies {
				bodies[i] = bytes.ReplaceAll(review, []byte("########"), fmt.Appendf(nil, "%08d", i))
			}
			serve, served := server(t, h), 0
			allocs := make([]float64, runs)
			for i := range allocs {
				allocs[i] = testing.AllocsPerRun(1, func() {
					serve(bodies[served])
					served++
				})
			}
			slices.Sort(allocs)
			// The race detector empties pools at random, but not before each review.
			if n := allocs[runs/4]; n > most {
				t.Errorf("%v allocations, want at most %v", n, most)
			}
			if n := recorder.outcomes[admission.Admitted]; n != len(bodies) {
				t.Errorf("outcomes %v, want %d of %s", recorder.outcomes, len(bodies), admission.Admitted)
			}
		})
	}
}

// benchmarks is the review that make bench measures. Each "########" in it is for the number of its Event.
func benchmarks(t *testing.T, update bool) []byte {
	t.Helper()
	parsed, err := template.ParseFiles(filepath.Join("..", "test", "bench", "review.json.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	var text, compact bytes.Buffer
	if err := parsed.Execute(&text, update); err != nil {
		t.Fatal(err)
	}
	if err := json.Compact(&compact, text.Bytes()); err != nil {
		t.Fatal(err)
	}
	return compact.Bytes()
}

// server lets a Handler answer reviews, without an allocation of its own.
func server(t *testing.T, h *admission.Handler) func(body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/?timeout=1h", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	reader := &bytes.Reader{}
	req.Body = io.NopCloser(reader)
	w := &plainWriter{header: http.Header{}}
	return func(body []byte) {
		reader.Reset(body)
		req.ContentLength = int64(len(body))
		h.ServeHTTP(w, req)
	}
}

// answers is a store that always answers the same.
type answers store.Decision

func (a answers) Decide(_ context.Context, now time.Time, _ store.Write, l store.Limits) (store.Decision, error) {
	d := store.Decision(a)
	switch {
	case d.Verdict != store.Drop:
	case len(l.Quotas) > 0:
		d.Empty, d.Next = &l.Quotas[0], now.Add(time.Minute)
	default:
		d.Empty, d.Next = &l.Spam, now.Add(time.Minute)
	}
	return d, nil
}

// TestAReviewAllocatesLittle holds it for each way through a Handler, with an Event as a kubelet writes it, beside what a
// store allocates.
func TestAReviewAllocatesLittle(t *testing.T) {
	quota := func(p *applied) {
		p.limits(limit(1, 1, time.Hour, policy.KeyNamespace))
	}
	for says, tt := range map[string]struct {
		policy   func(*applied) // nil for the default
		decision store.Verdict
		update   bool
		user     string // "" for a node
		want     admission.Outcome
	}{
		"one that is admitted":                 {decision: store.Admit, want: admission.Admitted},
		"one of a tenant that is admitted":     {decision: store.Admit, user: "system:serviceaccount:web:web", want: admission.Admitted},
		"one of a tenant that is merged":       {decision: store.Merge, user: "system:serviceaccount:web:web", want: admission.Merged},
		"one that is admitted under a quota":   {policy: quota, decision: store.Admit, want: admission.Admitted},
		"one that is merged":                   {decision: store.Merge, want: admission.Merged},
		"one that a spam filter drops":         {decision: store.Drop, want: admission.Dropped},
		"one that a quota drops":               {policy: quota, decision: store.Drop, want: admission.Dropped},
		"a recorder's UPDATE that is admitted": {decision: store.Admit, update: true, want: admission.Admitted},
		"a recorder's UPDATE that is merged":   {decision: store.Merge, update: true, want: admission.Merged},
	} {
		t.Run(says, func(t *testing.T) {
			p := defaults()
			if tt.policy != nil {
				tt.policy(p)
			}
			gate := newGate(answers{Verdict: tt.decision, Into: "a", Total: 2}, p)
			outcomes := outcomes{}
			gate.Recorder = outcomes
			h, change := handlerOf(gate, gate.Mutate, 1), details{}
			if tt.update {
				h.Phase, change = gate.Validate, details{counted}
			}
			if tt.user != "" {
				change = details{user(tt.user)}
			}
			const runs = 200
			bodies := make([][]byte, runs+1)
			for i := range bodies {
				bodies[i] = reviewOf(t, kubelets(fmt.Sprintf("web-%03d", i), change))
			}
			serve := server(t, h)
			allocs := math.Inf(1)
			for range runs { // pools are emptied at any time, and by the race detector at random
				allocs = min(allocs, testing.AllocsPerRun(1, func() { serve(bodies[outcomes[tt.want]%len(bodies)]) }))
			}
			if allocs > mostAllocs {
				t.Errorf("%v allocations, want at most %d", allocs, mostAllocs)
			}
			if outcomes[tt.want] <= runs {
				t.Errorf("outcomes %v, want %s", outcomes, tt.want)
			}
		})
	}
}

// plainWriter is a ResponseWriter that keeps nothing.
type plainWriter struct{ header http.Header }

func (w *plainWriter) Header() http.Header              { return w.header }
func (w *plainWriter) WriteHeader(int)                  {}
func (w *plainWriter) Write(b []byte) (int, error)      { return len(b), nil }
func (w *plainWriter) SetReadDeadline(time.Time) error  { return nil }
func (w *plainWriter) SetWriteDeadline(time.Time) error { return nil }

// kubelets is a request about the Event of a pod, as an API server sends it.
func kubelets(pod string, change details) *admission.Request {
	r := newRequest(epoch(), pod+".18a2b3c4d5e6f708", details{about(pod), message(
		"Back-off restarting failed container web in pod " + pod + "_default(3f2b6a50-7a0b-4a5e-9d60-8a7ff2d1c0de)")})
	r.UserInfo.Groups = []string{"system:nodes", "system:authenticated"}
	r.Object.CreationTimestamp = metav1.NewTime(epoch())
	r.Object.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &r.Object.CreationTimestamp, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{},"f:lastTimestamp":{},"f:message":{},"f:reason":{},"f:source":{"f:component":{},"f:host":{}},"f:type":{}}`),
	}}
	for _, one := range change {
		one(r)
	}
	return r
}

// counted makes a request a recorder's UPDATE.
func counted(r *admission.Request) {
	r.Operation, r.OldObject = admissionv1.Update, r.Object.DeepCopy()
	r.Object.Count++
}

// outcomes are a Recorder that counts them.
type outcomes map[admission.Outcome]int

func (o outcomes) Reviewed(_ string, one admission.Outcome, _ time.Duration) { o[one]++ }

func (outcomes) Decided(admission.Decided) {}

// counting is another Recorder that is counted.
type counting struct {
	admission.Recorder

	outcomes outcomes
}

// Reviewed implements admission.Recorder.
func (c *counting) Reviewed(handler string, one admission.Outcome, took time.Duration) {
	c.outcomes.Reviewed(handler, one, took)
	c.Recorder.Reviewed(handler, one, took)
}
