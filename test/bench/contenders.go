package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// contender is one handler to measure.
type contender struct {
	// name is the stem of its figures.
	name string
	// validating is for reviews of the validating phase.
	validating bool
	// fresh makes the handler, without any state. before is asked about each
	// Event first, in the mutating phase and outside the measurement; nil for
	// nothing.
	fresh func() (handler, before http.Handler, err error)
}

// contenders are all that is measured, in the order of the table.
func contenders() []contender {
	return []contender{
		{name: "handler_mutate", fresh: func() (http.Handler, http.Handler, error) {
			mutate, _, err := newHandlers()
			return mutate, nil, err
		}},
		{name: "handler_validate", validating: true, fresh: func() (http.Handler, http.Handler, error) {
			mutate, validate, err := newHandlers()
			return validate, mutate, err
		}},
		{name: "handler_default", fresh: func() (http.Handler, http.Handler, error) {
			handler, err := newDefaultHandler()
			return handler, nil, err
		}},
		{name: "handler_plain", fresh: func() (http.Handler, http.Handler, error) {
			return newPlainHandler(answerAllow), nil, nil
		}},
	}
}

// newHandlers makes the handlers of both phases over one store, as serve does.
func newHandlers() (mutate, validate http.Handler, err error) {
	memory, err := store.NewMemory(store.DefaultBytes)
	if err != nil {
		return nil, nil, err
	}
	governing := admission.Static(policy.Default())
	gate := &admission.Gate{
		Policies:   &governing,
		Store:      memory,
		Now:        time.Now,
		Local:      rate.NewLimiter(0, 0),
		Complaints: &rate.Sometimes{Interval: time.Minute},
	}
	decided := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "decisions"}, []string{"outcome"})
	inFlight := admission.NewPlaces(256)
	handler := func(p admission.Phase) http.Handler {
		return &admission.Handler{
			Gate: gate, Phase: p, MaxBytes: 8 << 20, InFlight: inFlight,
			Count: func(o admission.Outcome) { decided.WithLabelValues(string(o)).Inc() },
		}
	}
	return handler(gate.Mutate), handler(gate.Validate), nil
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
