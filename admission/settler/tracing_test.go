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

// TestEachWriteIsATraceOfItsOwn holds what is told of writes that the API server takes,
// refuses and does not answer, and that none of it is what an Event says.
func TestEachWriteIsATraceOfItsOwn(t *testing.T) {
	const secret = "swordfish"
	refusal := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: "message: Invalid value: " + secret,
	}}
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		r := newRig(t)
		r.account.owed = []store.Debt{debt("a"), debt("b"), debt("c")}
		r.answer = func(n int) error { return []error{nil, refusal, apierrors.NewTimeoutError(secret, 1), nil}[n-1] }
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
		if err := r.run(r.account, time.Second, settler.Options{Workers: 1, Tracer: tracer}); err != nil {
			t.Error(err)
		}
		var told []string
		for _, s := range recorder.Ended() {
			if s.Parent().IsValid() {
				t.Errorf("%s is part of another trace", s.Name())
			}
			told = append(told, fmt.Sprint(s.Name(), " ", s.Attributes()[0].Value.String(), " ", s.Attributes()[2].Value.String(), " ", s.Status().Description))
		}
		want := []string{"settle default told ", "settle default refused Invalid", "settle default retried Timeout", "settle default told "}
		if !slices.Equal(told, want) {
			t.Errorf("spans %q, want %q", told, want)
		}
		if all := fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(recorder.Ended())); strings.Contains(all, secret) {
			t.Errorf("spans tell what an Event says: %s", all)
		}
	})
}
