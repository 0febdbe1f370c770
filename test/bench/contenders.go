package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/metrics"
	"github.com/eventquota/eventquota/store/memory"
)

// contender is a webhook handler to measure.
type contender struct {
	// name is the prefix of its figures' names.
	name string
	// update selects reviews of UPDATEs instead of CREATEs.
	update bool
	// newHandler returns a new handler, with an empty store.
	newHandler func() (http.Handler, error)
}

// contenders returns all handlers to measure, in the order of the table.
func contenders() []contender {
	return []contender{
		{name: "handler_mutate", newHandler: func() (http.Handler, error) {
			return newHandler((*admission.Gate).Mutate), nil
		}},
		{name: "handler_validate", update: true, newHandler: func() (http.Handler, error) {
			return newHandler((*admission.Gate).Validate), nil
		}},
		{name: "handler_default", newHandler: newDefaultHandler},
		{name: "handler_plain", newHandler: func() (http.Handler, error) { return newPlainHandler(answerAllow), nil }},
	}
}

// newHandler returns the handler of an admission phase, set up as serve does, with a memory store.
func newHandler(phase func(*admission.Gate, context.Context, *admission.Request) (admission.Answer, error)) http.Handler {
	gate := newGate(defaults(), memory.New(memory.Options{Bytes: memory.DefaultBytes}))
	gate.Observer = metrics.New("bench")
	return &admission.Handler{
		Gate: gate, InFlight: admission.NewSemaphore(256), Deadline: reviewTimeout,
		Phase: func(ctx context.Context, r *admission.Request) (admission.Answer, error) { return phase(gate, ctx, r) },
	}
}

// newDefaultHandler returns a handler with the defaults of controller-runtime, which decode the review and the Event and make a
// logger for each request.
func newDefaultHandler() (http.Handler, error) {
	decoder := ctrladmission.NewDecoder(scheme.Scheme)
	hook := &ctrladmission.Webhook{
		Handler: ctrladmission.HandlerFunc(func(_ context.Context, r ctrladmission.Request) ctrladmission.Response {
			var e corev1.Event
			if err := decoder.Decode(r, &e); err != nil {
				return ctrladmission.Errored(http.StatusBadRequest, err)
			}
			return ctrladmission.Allowed("")
		}),
	}
	return ctrladmission.StandaloneWebhook(hook, ctrladmission.StandaloneOptions{Logger: discardJSON()})
}

// discardJSON returns a logger like the webhook's, at the default level, that discards its output.
func discardJSON() logr.Logger {
	return logr.FromSlogHandler(slog.NewJSONHandler(io.Discard, nil))
}
