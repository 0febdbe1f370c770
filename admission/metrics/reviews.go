package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/eventquota/eventquota/admission"
)

// Timed is next, with how long it takes observed.
func (m *Metrics) Timed(phase string, next http.Handler) http.Handler {
	took := m.took.WithLabelValues(phase)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		next.ServeHTTP(w, r)
		took.Observe(time.Since(began).Seconds())
	})
}

// Cuts is next, with the messages that it cuts counted.
func (m *Metrics) Cuts(next admission.Phase) admission.Phase {
	return func(ctx context.Context, r *admission.Request) (admission.Answer, error) {
		a, err := next(ctx, r)
		if a.Cut {
			m.truncated.Inc()
		}
		return a, err
	}
}
