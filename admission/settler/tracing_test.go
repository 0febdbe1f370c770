package settler_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

// TestEachTryIsATraceOfItsOwn holds what spans say of writes that the API server takes, rejects and does
// not answer, and that none of it is what an Event says.
func TestEachTryIsATraceOfItsOwn(t *testing.T) {
	const secret = "swordfish"
	refusal := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: "message: Invalid value: " + secret,
	}}
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		r := newRig(t)
		r.queue.writes = []store.PendingWrite{r.pending("a"), r.pending("b"), r.pending("c")}
		r.answer = func(q *request) error { return []error{nil, refusal, apierrors.NewTimeoutError(secret, 0), nil}[q.n-1] }
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
		r.run(time.Second, settler.Options{Workers: 1, Tracer: tracer})
		var spans []string
		for _, s := range recorder.Ended() {
			if s.Parent().IsValid() {
				t.Errorf("%s is part of another trace", s.Name())
			}
			spans = append(spans, fmt.Sprint(s.Name(), " ", s.Attributes()[0].Value.String(), " ", s.Attributes()[2].Value.String(), " ", s.Status().Description))
		}
		want := []string{"settle default written ", "settle default rejected Invalid", "settle default retried Timeout", "settle default written "}
		if !slices.Equal(spans, want) {
			t.Errorf("spans %q, want %q", spans, want)
		}
		if all := fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(recorder.Ended())); strings.Contains(all, secret) {
			t.Errorf("spans have what an Event says: %s", all)
		}
	})
}
