package admission_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// maxAllocs is how many allocations a review may cost, from its HTTP request to its
// answer, beside those of the store and of the server.
const maxAllocs = 37

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

// TestAReviewAllocatesLittle holds it for each way through a Handler, with an Event as a kubelet writes it.
func TestAReviewAllocatesLittle(t *testing.T) {
	quota := func(p *applied) {
		p.limits(limit(1, 1, time.Hour, policy.KeyNamespace))
	}
	for says, tt := range map[string]struct {
		policy   func(*applied) // nil for the default
		decision store.Verdict
		update   bool
		want     admission.Outcome
	}{
		"one that is admitted":                 {decision: store.Admit, want: admission.Admitted},
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
			const runs = 200
			bodies := make([][]byte, runs+1)
			for i := range bodies {
				bodies[i] = reviewOf(t, kubelets(fmt.Sprintf("web-%03d", i), change))
			}
			body := bodies[0]
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/?timeout=1h", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.ContentLength = int64(len(body))
			reader := bytes.NewReader(body)
			req.Body = io.NopCloser(reader)
			w := &plainWriter{header: http.Header{}}
			serve := func() {
				reader.Reset(bodies[outcomes[tt.want]%len(bodies)])
				h.ServeHTTP(w, req)
			}
			allocs := math.Inf(1)
			for range runs { // pools are emptied at any time, and by the race detector at random
				allocs = min(allocs, testing.AllocsPerRun(1, serve))
			}
			if allocs > maxAllocs {
				t.Errorf("%v allocations, want at most %d", allocs, maxAllocs)
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
