package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	cradmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// way is a way to serve Handlers, and what a Gate behind it was asked and has reported.
type way struct {
	*unreadableRig

	policies admission.Policies
	spans    *tracetest.SpanRecorder

	Requests []policy.Request
	Events   []*corev1.Event
	Options  []admission.WriteOptions
	Outcomes []string
}

// Resolve implements admission.Policies.
func (w *way) Resolve(ctx context.Context, namespace string, e *corev1.Event, r *policy.Request) policy.Resolution {
	w.Requests, w.Events = append(w.Requests, *r), append(w.Events, e)
	return w.policies.Resolve(ctx, namespace, e, r)
}

// ObserveReview implements admission.Observer.
func (w *way) ObserveReview(handler string, o admission.Outcome, _ time.Duration) {
	w.Outcomes = append(w.Outcomes, fmt.Sprint(handler, " ", o))
}

// ObserveDecision implements admission.Observer.
func (w *way) ObserveDecision(d admission.DecidedWrite) {
	w.Options = append(w.Options, d.Request.Options)
}

// newWays returns two ways to serve the same Handlers: their own ServeHTTP, and controller-runtime's webhook.Admission.
func newWays(t *testing.T, change func(*appliedRules)) (direct, contract *way) {
	t.Helper()
	for _, w := range []**way{&direct, &contract} {
		made := &way{unreadableRig: newUnreadableRig(t, change), spans: tracetest.NewSpanRecorder()}
		made.policies, made.gate.Policies, made.gate.Observer = made.gate.Policies, made, made
		for operation, h := range made.handlers {
			h.(*admission.Handler).Name = string(operation)
			if w == &contract {
				made.handlers[operation] = &cradmission.Webhook{Handler: h.(*admission.Handler)}
			}
		}
		*w = made
	}
	return direct, contract
}

// call sends a review as the API server does, in a span, and returns the answer as text. Random numbers in it are replaced.
func (w *way) call(body []byte) string {
	w.t.Helper()
	var review struct {
		Request struct{ Operation admissionv1.Operation }
	}
	if err := json.Unmarshal(body, &review); err != nil {
		w.t.Fatal(err)
	}
	a := w.answer(review.Request.Operation, body)
	decided := a.AuditAnnotations[admission.AnnotationDecided]
	if decided != "" {
		decided = " decided " + strings.TrimPrefix(decided, fmt.Sprint(epoch().UnixMicro()))
	}
	switch {
	case a.UID != requestUID:
		w.t.Errorf("answer to %q, want one to %q", a.UID, requestUID)
	case len(a.AuditAnnotations) > 1, a.Allowed && a.Result != nil && a.Result.Code != http.StatusOK, a.Patch != nil && *a.PatchType != admissionv1.PatchTypeJSONPatch:
		w.t.Errorf("answer %+v", a)
	case a.Allowed:
		return strings.TrimSpace("admit "+regexp.MustCompile(`[0-9a-f]{16}`).ReplaceAllString(string(a.Patch), "ID")) + decided
	}
	return fmt.Sprintf("%d %s: %s", a.Result.Code, a.Result.Reason, a.Result.Message) + decided
}

// answer sends a review of an operation in a span.
func (w *way) answer(operation admissionv1.Operation, body []byte) *admissionv1.AdmissionResponse {
	w.t.Helper()
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans)).Tracer("").Start(w.t.Context(), string(operation))
	defer span.End()
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/"+longTimeout, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := doRequest(w.t, w.handlers[operation], request)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil {
		w.t.Fatalf("status %d, body %q, error %v: no answer", recorder.Code, recorder.Body, err)
	}
	return review.Response
}

// spanTexts returns the spans as texts.
func (w *way) spanTexts() (all []string) {
	for _, s := range w.spans.Ended() {
		all = append(all, fmt.Sprint(s.Name(), s.Status(), s.Attributes()))
	}
	return all
}

// compareWays fails the test if both ways have passed on different requests, or reported different results.
func compareWays(t *testing.T, direct, contract *way) {
	t.Helper()
	for name, of := range map[string]func(*way) any{
		"requests": func(w *way) any { return w.Requests }, "Events": func(w *way) any { return w.Events },
		"options": func(w *way) any { return w.Options }, "outcomes": func(w *way) any { return w.Outcomes },
		"spans":          func(w *way) any { return w.spanTexts() },
		"pending writes": func(w *way) any { return w.claimTexts() },
	} {
		if diff := cmp.Diff(of(direct), of(contract)); diff != "" {
			t.Errorf("%s (-http.Handler +webhook.Admission):\n%s", name, diff)
		}
	}
}

// TestWebhookAdmissionDecidesTheSame sends each review to a Handler, and to a webhook.Admission of controller-runtime with such a Handler.
func TestWebhookAdmissionDecidesTheSame(t *testing.T) {
	t.Parallel()
	tenant := func(r *admission.Request) {
		r.UserInfo = policy.UserInfo{Username: "web", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"c": {"d", "e"}, "f": nil}}
		r.Name, r.SubResource, r.RequestSubResource = r.Object.Name, "one", "two"
		r.Resource.Resource, r.RequestResource.Resource, r.RequestResource.Group = "events", "events", "other"
	}
	managed := func(r *admission.Request) { r.Options.FieldManager = "kubectl" }
	updated := func(r *admission.Request) {
		r.Operation, r.OldObject = admissionv1.Update, newRequest(epoch(), "a", nil).Object
	}
	direct, contract := newWays(t, spamFilterBurst(2))
	const decided = " decided "
	for _, step := range []struct {
		name   string
		change details
		want   string
	}{
		{"a", nil, "admit" + decided},
		{"a.2", nil, "409 AlreadyExists: merged into a stored Event, 2 occurrences so far" + decided + "+1"},
		{"", details{withGenerateName("a-")}, "400 EventMerged: merged into a stored Event, 3 occurrences so far" + decided + "+2"},
		{"a", details{updated, count(2)}, "409 AlreadyExists: merged into a stored Event, 4 occurrences so far" + decided + "+3"},
		{"a", details{updated, count(3)}, "409 AlreadyExists: merged into a stored Event, 5 occurrences so far" + decided + "+4"},
		{"b", details{message("other"), dryRun}, "admit"},
		{"c", details{message("other"), tenant, managed}, `admit [{"op":"add","path":"/metadata/annotations","value":{"eventquota.io/create-id":"ID"}}]` + decided + "+5"},
		{"d", details{series(2), message("series"), tenant}, `admit [{"op":"add","path":"/metadata/annotations","value":{"eventquota.io/create-id":"ID"}}]` + decided + "+6"},
		{"e", details{message("third")}, "admit" + decided + "+7"},
		{"f", details{message("fourth"), reason("Other")}, "400 EventDropped: spam filter of the default policy is empty: next token at 2030-03-01T12:05:00Z, in 5m0s" + decided + "+8"},
		{"g", details{func(r *admission.Request) { r.Kind.Kind = "Pod" }}, "admit"},
	} {
		body := marshalReview(t, newRequest(epoch(), step.name, step.change))
		if got := direct.call(body); got != step.want {
			t.Errorf("%s: ServeHTTP answers %q, want %q", step.name, got, step.want)
		}
		if got := contract.call(body); got != step.want {
			t.Errorf("%s: webhook.Admission answers %q, want %q", step.name, got, step.want)
		}
	}
	compareWays(t, direct, contract)
	if len(direct.Requests) < 10 || len(direct.Options) < 9 || len(direct.spanTexts()) < 11 {
		t.Errorf("only %d requests, %d decisions and %d spans were compared", len(direct.Requests), len(direct.Options), len(direct.spanTexts()))
	}
}

// TestWebhookAdmissionDecidesUnreadableEvents sends reviews of unreadable Events. If controller-runtime cannot decode a review, the Handler is
// not called.
func TestWebhookAdmissionDecidesUnreadableEvents(t *testing.T) {
	t.Parallel()
	undecodable, all := []string{"too deep", "a bare control byte", "a byte order mark"}, unreadableReviews()
	delete(all, "too long in its end") // its Events are short, and Handle reads them
	for shape, members := range all {
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
			t.Run(fmt.Sprintf("%s, %s", operation, shape), func(t *testing.T) {
				t.Parallel()
				direct, contract := newWays(t, onlyLimits(limit(3, 1, time.Hour, policy.KeyNamespace)))
				body := fmt.Appendf(nil, `{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": %q,`+
					`"kind": {"group": "", "version": "v1", "kind": "Event"}, "namespace": "shop", "operation": %q, "userInfo": {"username": "u"}, %s}}`,
					requestUID, operation, members)
				if slices.Contains(undecodable, shape) {
					if a := contract.answer(operation, body); a.Allowed || a.UID != "" || len(contract.Outcomes) > 0 {
						t.Errorf("the answer is %+v, and the Handler reports %q, want that it is not called", a, contract.Outcomes)
					}
					return
				}
				for range 10 {
					want := direct.call(body)
					if got := contract.call(body); got != want {
						t.Errorf("webhook.Admission answers %q, want %q as ServeHTTP", got, want)
					}
				}
				compareWays(t, direct, contract)
			})
		}
	}
}

// handleRequest returns a request as webhook.Admission passes it.
func handleRequest(t *testing.T, r *admission.Request) (made cradmission.Request) {
	t.Helper()
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(marshalReview(t, r), &review); err != nil {
		t.Fatal(err)
	}
	made.AdmissionRequest = *review.Request
	return made
}

// TestHandlePassesNoPartOfUnreadableEvent has an Event whose old version cannot be decoded, as over HTTP.
func TestHandlePassesNoPartOfUnreadableEvent(t *testing.T) {
	t.Parallel()
	passed := 0
	h := newHandler(newRig(t, defaults()).gate, func(_ context.Context, r *admission.Request) (admission.Answer, error) {
		if passed++; r.Object != nil || r.OldObject != nil || r.DecodeError == nil {
			t.Errorf("the Phase gets object %v and old object %v, error %v; want an error only", r.Object, r.OldObject, r.DecodeError)
		}
		return admission.Answer{}, nil
	}, 1)
	request := handleRequest(t, newRequest(epoch(), "a", nil))
	request.OldObject.Raw = []byte(`{"count": "1"}`)
	h.Handle(t.Context(), request)
	if passed != 1 {
		t.Errorf("the Phase is called %d times, want once", passed)
	}
}

// TestHandleRefusesLongNames: over HTTP, a review with so long a name does not say who writes the Event.
func TestHandleRefusesLongNames(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]detail{
		"name": func(r *admission.Request) { r.Name = longerThanReview + "x" }, "user": user(longerThanReview + "x"),
	} {
		r := newRig(t, defaults())
		a := newHandler(r.gate, r.gate.Mutate, 1).Handle(t.Context(), handleRequest(t, newRequest(epoch(), "a", details{change})))
		if a.Allowed || a.Result.Reason != admission.ReasonDenied || r.store.decisions > 0 {
			t.Errorf("a long %s: allowed %t, %+v; %d decisions of the store; want it denied without one", says, a.Allowed, a.Result, r.store.decisions)
		}
	}
}

// TestHandleIsBounded fills the only slot with a review that the store never decides, and has a caller that leaves.
func TestHandleIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ deadline, leaves, want time.Duration }{
			{200 * time.Millisecond, time.Hour, 200 * time.Millisecond},
			{time.Hour, time.Hour, admission.MaxTimeout * 9 / 10},
			{time.Hour, time.Second, time.Second},
		} {
			s, failures := &stuckStore{}, 0
			h := newTestHandlers(s)
			h.mutate.Deadline, h.mutate.OnFailure = test.deadline, func() { failures++ }
			request := handleRequest(t, newRequest(time.Now(), "a", nil))
			ctx, leave := context.WithTimeout(t.Context(), test.leaves)
			began, first := time.Now(), make(chan cradmission.Response)
			go func() { first <- h.mutate.Handle(ctx, request) }()
			synctest.Wait()
			if a := h.mutate.Handle(ctx, request); !a.Allowed || time.Since(began) > 0 {
				t.Errorf("a second review: allowed %t after %v, want it undecided at once", a.Allowed, time.Since(began))
			}
			<-first
			if took := time.Since(began); took != test.want || !slices.Equal(s.waited, []time.Duration{test.want}) {
				t.Errorf("the first review took %v, and waited %v for the store, want %v", took, s.waited, test.want)
			}
			if want := []admission.Outcome{admission.Undecided, admission.Undecided}; !slices.Equal(h.outcomes, want) || !h.mutate.InFlight.Idle() {
				t.Errorf("outcomes %v, want %v; the slot is free: %t", h.outcomes, want, h.mutate.InFlight.Idle())
			}
			if left := errors.Is(ctx.Err(), context.DeadlineExceeded); failures > 0 != left {
				t.Errorf("OnFailure was called %d times, and the caller has left: %t", failures, left)
			}
			leave()
		}
	})
}

// maxHandleAllocs bounds the allocations of Handle outside the store, without those of webhook.Admission. The race detector adds some.
const maxHandleAllocs = 12 + 2

func TestHandleAllocations(t *testing.T) {
	gate, allowed := newGate(fixedStore{Verdict: store.Admit}, defaults()), 0
	h, request := newHandler(gate, gate.Mutate, 1), handleRequest(t, kubeletRequest("web-0", nil))
	n := testing.AllocsPerRun(200, func() {
		if h.Handle(t.Context(), request).Allowed {
			allowed++
		}
	})
	if allowed != 201 {
		t.Errorf("%d of 201 reviews are allowed, want all", allowed)
	}
	if n > maxHandleAllocs {
		t.Errorf("%v allocations, want at most %d", n, maxHandleAllocs)
	}
}
