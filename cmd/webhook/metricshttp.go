package main

import (
	"context"
	"net/http"
	"time"

	"github.com/eventquota/eventquota/admission"
)

// timed is next, with how long it takes observed.
func (m *metrics) timed(phase string, next http.Handler) http.Handler {
	took := m.took.WithLabelValues(phase)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		next.ServeHTTP(w, r)
		took.Observe(time.Since(began).Seconds())
	})
}

// cuts is next, with the messages that it cuts counted.
func (m *metrics) cuts(next admission.Phase) admission.Phase {
	return func(ctx context.Context, r *admission.Request) (admission.Answer, error) {
		a, err := next(ctx, r)
		if a.Cut {
			m.truncated.Inc()
		}
		return a, err
	}
}
