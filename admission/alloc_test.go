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

// Bounds on the allocations of a review, from its HTTP request to its answer, without those of the server: of a CREATE at
// /mutate, and of an UPDATE at /validate.
const (
	maxMutateAllocs   = 37
	maxValidateAllocs = 38
	// maxOwnAllocs bounds the allocations outside the store, for any outcome. The race detector adds two.
	maxOwnAllocs = 23 + 2
)

// TestReviewAllocationsMatchDocs sends the reviews of make bench, with the Memory store and metrics.
func TestReviewAllocationsMatchDocs(t *testing.T) {
	for phase, most := range map[string]float64{"mutate": maxMutateAllocs, "validate": maxValidateAllocs} {
		t.Run(phase, func(t *testing.T) {
			gate, recorder := newGate(newMemory(t), defaults()), &countingObserver{Observer: metrics.New("test"), outcomes: outcomeCounts{}}
			gate.Observer = recorder
			h := newHandler(gate, map[string]admission.Phase{"mutate": gate.Mutate, "validate": gate.Validate}[phase], 1)
			review := benchmarkReview(t, phase == "validate")
			const runs = 200
			bodies := make([][]byte, 2*runs) // AllocsPerRun adds an uncounted call to each run
			for i := range bodies {
				bodies[i] = bytes.ReplaceAll(review, []byte("########"), fmt.Appendf(nil, "%08d", i))
			}
			serve, served := serveReviews(t, h), 0
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

// benchmarkReview returns the review that make bench measures. Each "########" in it is replaced by the number of the Event.
func benchmarkReview(t *testing.T, update bool) []byte {
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

// serveReviews returns a function that passes reviews to a Handler without allocating.
func serveReviews(t *testing.T, h *admission.Handler) func(body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/?timeout=1h", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	reader := &bytes.Reader{}
	req.Body = io.NopCloser(reader)
	w := &discardWriter{header: http.Header{}}
	return func(body []byte) {
		reader.Reset(body)
		req.ContentLength = int64(len(body))
		h.ServeHTTP(w, req)
	}
}

// fixedStore is a store that always returns the same decision.
type fixedStore store.Decision

func (a fixedStore) Decide(_ context.Context, now time.Time, _ store.Write, l store.Limits) (store.Decision, error) {
	d := store.Decision(a)
	switch {
	case d.Verdict != store.Drop:
	case len(l.Quotas) > 0:
		d.RefusedBy, d.NextToken = &l.Quotas[0], now.Add(time.Minute)
	default:
		d.RefusedBy, d.NextToken = &l.SpamFilter, now.Add(time.Minute)
	}
	return d, nil
}

// TestReviewAllocationsPerPath checks each path through a Handler, with a kubelet's Event, without the allocations of a
// store.
func TestReviewAllocationsPerPath(t *testing.T) {
	quota := func(p *appliedRules) {
		p.addQuota(limit(1, 1, time.Hour, policy.KeyNamespace))
	}
	for says, tt := range map[string]struct {
		policy   func(*appliedRules) // nil for the default
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
			gate := newGate(fixedStore{Verdict: tt.decision, MergedInto: "a", Total: 2}, p)
			outcomes := outcomeCounts{}
			gate.Observer = outcomes
			h, change := newHandler(gate, gate.Mutate, 1), details{}
			if tt.update {
				h.Phase, change = gate.Validate, details{asRecorderUpdate}
			}
			if tt.user != "" {
				change = details{user(tt.user)}
			}
			const runs = 200
			bodies := make([][]byte, runs+1)
			for i := range bodies {
				bodies[i] = marshalReview(t, kubeletRequest(fmt.Sprintf("web-%03d", i), change))
			}
			serve := serveReviews(t, h)
			allocs := math.Inf(1)
			for range runs { // pools are emptied at any time, and by the race detector at random
				allocs = min(allocs, testing.AllocsPerRun(1, func() { serve(bodies[outcomes[tt.want]%len(bodies)]) }))
			}
			if allocs > maxOwnAllocs {
				t.Errorf("%v allocations, want at most %d", allocs, maxOwnAllocs)
			}
			if outcomes[tt.want] <= runs {
				t.Errorf("outcomes %v, want %s", outcomes, tt.want)
			}
		})
	}
}

// discardWriter is a ResponseWriter that keeps nothing.
type discardWriter struct{ header http.Header }

func (w *discardWriter) Header() http.Header              { return w.header }
func (w *discardWriter) WriteHeader(int)                  {}
func (w *discardWriter) Write(b []byte) (int, error)      { return len(b), nil }
func (w *discardWriter) SetReadDeadline(time.Time) error  { return nil }
func (w *discardWriter) SetWriteDeadline(time.Time) error { return nil }

// kubeletRequest returns a request about a pod's Event, as an API server sends it.
func kubeletRequest(pod string, change details) *admission.Request {
	r := newRequest(epoch(), pod+".18a2b3c4d5e6f708", details{aboutPod(pod), message(
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

// asRecorderUpdate turns a request into a recorder's UPDATE.
func asRecorderUpdate(r *admission.Request) {
	r.Operation, r.OldObject = admissionv1.Update, r.Object.DeepCopy()
	r.Object.Count++
}

// outcomeCounts is an Observer that counts outcomes.
type outcomeCounts map[admission.Outcome]int

func (o outcomeCounts) ObserveReview(_ string, one admission.Outcome, _ time.Duration) { o[one]++ }

func (outcomeCounts) ObserveDecision(admission.DecidedWrite) {}

// countingObserver counts the calls of another Observer.
type countingObserver struct {
	admission.Observer

	outcomes outcomeCounts
}

// ObserveReview implements admission.Observer.
func (c *countingObserver) ObserveReview(handler string, one admission.Outcome, took time.Duration) {
	c.outcomes.ObserveReview(handler, one, took)
	c.Observer.ObserveReview(handler, one, took)
}
