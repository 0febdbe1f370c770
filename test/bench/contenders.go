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

// contender is one handler to measure.
type contender struct {
	// name is the stem of its figures.
	name string
	// update is for reviews of UPDATEs.
	update bool
	// newHandler makes the handler, without any state.
	newHandler func() (http.Handler, error)
}

// contenders are all that is measured, in the order of the table.
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

// newHandler makes the handler of a phase, as serve does.
func newHandler(phase func(*admission.Gate, context.Context, *admission.Request) (admission.Answer, error)) http.Handler {
	kept := memory.New(memory.Options{Bytes: memory.DefaultBytes})
	governing := defaults()
	gate := newGate(governing, kept)
	gate.Observer = metrics.New("bench")
	return &admission.Handler{
		Gate: gate, InFlight: admission.NewSemaphore(256), Deadline: reviewTimeout,
		Phase: func(ctx context.Context, r *admission.Request) (admission.Answer, error) { return phase(gate, ctx, r) },
	}
}

// newDefaultHandler is what an author of a webhook gets from
// controller-runtime: reviews and Events decoded by its decoders, a logger
// made for each request.
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

// discardJSON is the logger of the webhook, at its default level, but for
// where its lines go.
func discardJSON() logr.Logger {
	return logr.FromSlogHandler(slog.NewJSONHandler(io.Discard, nil))
}
