package settler_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

var errRefused = errors.New("connect: connection refused")

// namespaceTerminating is the API server's answer in a namespace that is being deleted.
func namespaceTerminating() error {
	err := apierrors.NewForbidden(resource(), "a", nil)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

func TestResponseHandling(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  error
		want string // outcome and results
	}{
		"yes":                                {nil, "[a written] [written]"},
		"the Event is not there":             {apierrors.NewNotFound(resource(), "a"), "[a not_found] [not_found]"},
		"the Event would not be valid":       {apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, "a", nil), "[a rejected] [rejected]"},
		"the patch is bad":                   {apierrors.NewBadRequest("no"), "[a rejected] [rejected]"},
		"the patch is too large":             {apierrors.NewRequestEntityTooLargeError("no"), "[a rejected] [rejected]"},
		"Events cannot be patched":           {apierrors.NewMethodNotSupported(resource(), "patch"), "[a rejected] [rejected]"},
		"the namespace is being deleted":     {namespaceTerminating(), "[a given_up] [given_up]"},
		"another version":                    {apierrors.NewConflict(resource(), "a", io.EOF), "[a written] [written]"},
		"a fault":                            {apierrors.NewInternalError(io.EOF), "[a written] [retried written]"},
		"too many requests":                  {apierrors.NewTooManyRequests("no", 0), "[a written] [retried written]"},
		"a timeout":                          {apierrors.NewTimeoutError("no", 0), "[a written] [retried written]"},
		"not allowed yet":                    {apierrors.NewForbidden(resource(), "a", io.EOF), "[a written] [retried written]"},
		"a credential that has just expired": {apierrors.NewUnauthorized("no"), "[a written] [retried written]"},
		"no connection":                      {errRefused, "[a written] [retried written]"},
		"an answer that is lost":             {errLost, "[a written] [retried written]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(r *rig) {
				r.queue.writes = []store.PendingWrite{r.pending("a")}
				r.answer = func(q *request) error {
					if q.number == 1 {
						return tt.err
					}
					return nil
				}
				r.run(time.Second, settler.Options{})
				if got := fmt.Sprint(r.queue.outcomes, r.results); got != tt.want {
					r.Errorf("%s, want %s", got, tt.want)
				}
				if len(r.loweringPatches) > 0 {
					r.Errorf("patches %v lowered a count", r.loweringPatches)
				}
			})
		})
	}
}

// waits returns the times between requests.
func (r *rig) waits() []time.Duration {
	var waits []time.Duration
	for i, q := range r.requests {
		if i > 0 {
			waits = append(waits, q.after-r.requests[i-1].after)
		}
	}
	return waits
}

// minRoundPause is the time between two rounds.
const minRoundPause = 250 * time.Millisecond

// The store waits ten minutes each time.
func TestPermanentlyFailingWriteIsReturnedThenGivenUp(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.queue.writes = []store.PendingWrite{r.pending("a", withTotal(9))}
		r.answer = func(q *request) error {
			if q.text == "patch default/a" {
				return apierrors.NewForbidden(resource(), "a", io.EOF)
			}
			return nil
		}
		r.run(2*time.Hour, settler.Options{})
		var tries []string
		for i, q := range r.requests {
			if q.text == "patch default/a" && len(tries) < 5 {
				tries = append(tries, q.after.Round(time.Second/4).String()+" "+r.results[i])
			}
		}
		if want := []string{"0s retried", "250ms retried", "500ms retried", "750ms failed", "10m0.75s retried"}; !slices.Equal(tries, want) {
			r.Errorf("tries %v, want %v", tries, want)
		}
		want := "[a failed a failed a failed a failed a failed a failed a given_up]"
		if got := fmt.Sprint(r.queue.outcomes); got != want {
			r.Errorf("%s, want %s", got, want)
		}
		if got := fmt.Sprint(r.lost); got != "[7]" {
			r.Errorf("lost %s, want [7]", got)
		}
		for _, part := range []string{`"namespace"="default"`, `"event"="a"`, `"unreported"=7`} {
			if len(r.logged) != 1 || !strings.Contains(r.logged[0], part) {
				r.Errorf("logged %q, want one line with %s", r.logged, part)
			}
		}
	})
}

func TestWritesWaitWhileAPIServerIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"no connection": errRefused, "an overload": apierrors.NewTooManyRequests("no", 0),
		"a proxy without backends": apierrors.NewServiceUnavailable("no"), "an expired credential": apierrors.NewUnauthorized("no"),
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(r *rig) {
				r.queue.writes = []store.PendingWrite{r.pending("a")}
				r.answer = func(q *request) error {
					if q.after < 2*time.Hour {
						return err
					}
					return nil
				}
				r.run(3*time.Hour, settler.Options{})
				if got := fmt.Sprint(r.queue.outcomes, r.lost); got != "[a written] []" {
					r.Errorf("%s, want a written and nothing lost", got)
				}
				want := []time.Duration{2 * minRoundPause, 4 * minRoundPause, 8 * minRoundPause, 16 * minRoundPause, 32 * minRoundPause}
				for len(want) < len(r.requests)-1 {
					want = append(want, 10*time.Second)
				}
				if waits := r.waits(); !slices.Equal(waits, want) {
					r.Errorf("waits %v, want %v", waits, want)
				}
			})
		})
	}
}

// The writes of one Event are never answered, as if another webhook were slow about it, while other writes are.
func TestSingleTimeoutCountsAsOwnFailure(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.queue.writes = []store.PendingWrite{r.pending("a")}
		for i := range 400 {
			r.queue.writes = append(r.queue.writes, r.pendingIn("other", fmt.Sprint("b", i)))
		}
		r.answer = func(q *request) error {
			if q.text == "patch default/a" && q.after < 20*time.Minute {
				return io.ErrUnexpectedEOF
			}
			return nil
		}
		r.run(time.Hour, settler.Options{RequestsPerSecond: 10})
		if n := slices.Index(r.queue.outcomes, "a failed"); n < 0 || !slices.Contains(r.queue.outcomes, "a written") {
			r.Errorf("%v, want a given back and written later", r.queue.outcomes)
		}
	})
}

func TestRequestRateLimit(t *testing.T) {
	runInBubble(t, func(r *rig) {
		const writes, perSecond = 500, 100 // each is a read and a patch
		for i := range writes {
			r.queue.writes = append(r.queue.writes, r.pending(fmt.Sprint(i), notReadYet))
		}
		r.run(time.Minute, settler.Options{RequestsPerSecond: perSecond})
		if len(r.queue.outcomes) != writes || len(r.requests) != 2*writes {
			r.Fatalf("%d writes by %d requests, want %d by %d", len(r.queue.outcomes), len(r.requests), writes, 2*writes)
		}
		for i, q := range r.requests {
			if soonest := time.Duration(i-perSecond) * time.Second / perSecond; q.after < soonest {
				r.Fatalf("request %d after %v, not before %v", i, q.after, soonest)
			}
		}
		// A burst, the other writes at the rate, and one or two claims until more can be claimed.
		if last, latest := r.requests[2*writes-1].after, 10*time.Second; last > latest {
			r.Errorf("the last request is after %v, want by %v", last, latest)
		}
	})
}

// TestEachAttemptIsATrace checks the spans of writes that the API server accepts, rejects and does not answer, and that they have no
// text of an Event.
func TestEachAttemptIsATrace(t *testing.T) {
	const secret = "swordfish"
	refusal := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: "message: Invalid value: " + secret,
	}}
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		r := newRig(t)
		r.queue.writes = []store.PendingWrite{r.pending("a"), r.pending("b"), r.pending("c")}
		r.answer = func(q *request) error {
			return []error{nil, refusal, apierrors.NewTimeoutError(secret, 0), nil}[q.number-1]
		}
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
		r.run(time.Second, settler.Options{Tracer: tracer})
		var spans []string
		for _, s := range recorder.Ended() {
			if s.Parent().IsValid() {
				t.Errorf("%s is part of another trace", s.Name())
			}
			spans = append(spans, fmt.Sprint(s.Name(), " ", s.Attributes()[0].Value.String(), " ", s.Attributes()[2].Value.String(), " ", s.Status().Description))
		}
		slices.Sort(spans)
		want := []string{"settle default rejected Invalid", "settle default retried Timeout", "settle default written ", "settle default written "}
		if !slices.Equal(spans, want) {
			t.Errorf("spans %q, want %q", spans, want)
		}
		if all := fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(recorder.Ended())); strings.Contains(all, secret) {
			t.Errorf("spans have what an Event says: %s", all)
		}
	})
}
