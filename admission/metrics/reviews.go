package metrics

import (
	"time"

	"github.com/eventquota/eventquota/admission"
)

var _ admission.Recorder = (*Metrics)(nil)

// Reviewed implements admission.Recorder.
func (m *Metrics) Reviewed(handler string, o admission.Outcome, cut bool, took time.Duration) {
	m.took.WithLabelValues(handler).Observe(took.Seconds())
	if o == "" {
		return
	}
	m.decided.WithLabelValues(handler, string(o)).Inc()
	if cut {
		m.truncated.Inc()
	}
	switch o {
	case admission.Merged, admission.Dropped, admission.Denied, admission.Overloaded:
		m.saved.Inc()
	case admission.Admitted, admission.Aggregated, admission.Ignored, admission.Undecided:
	}
}

// Decided implements admission.Recorder.
func (m *Metrics) Decided(d admission.Decided) {
	if m.Busiest != nil {
		m.Busiest.Decided(&d)
	}
	if d.Audited {
		m.audited.WithLabelValues(d.Verdict.String()).Inc()
		return
	}
	m.events.decided(&d)
}
