package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventquota/eventquota/admission/sink"
)

// Sink counts the records of the sink by their result. It implements sink.Counts.
type Sink struct {
	factory

	events      *eventMetrics
	records     *prometheus.CounterVec
	undelivered *prometheus.CounterVec
}

var _ sink.Counts = (*Sink)(nil)

func newSinkMetrics(made factory, events *eventMetrics) *Sink {
	return &Sink{
		factory: made, events: events,
		records: made.counters("eventquota_sink_records_total",
			"Copies of Event writes for an output of the sink (otlp or file), by result (delivered, full, refused, unanswered or stopped).",
			"output", "result"),
		undelivered: events.undelivered,
	}
}

// RegisterOutputs creates the counters of each output at 0, and registers the size of the queues. Each scrape calls
// queueBytes.
func (s *Sink) RegisterOutputs(queueBytes func() int64, outputs ...string) {
	for _, output := range outputs {
		for _, result := range []string{delivered, string(sink.Full), string(sink.Refused), string(sink.Unanswered), string(sink.Stopped)} {
			s.records.WithLabelValues(output, result)
		}
	}
	s.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "eventquota_sink_queue_bytes", Help: "Memory of the copies of Event writes that wait for the outputs of the sink or are being sent.",
	}, func() float64 { return float64(queueBytes()) })
}

const delivered = "delivered"

// Delivered implements sink.Counts.
func (s *Sink) Delivered(output string, records int) {
	s.records.WithLabelValues(output, delivered).Add(float64(records))
}

// Undelivered implements sink.Counts.
func (s *Sink) Undelivered(output, namespace string, reason sink.Reason, occurrences int64) {
	s.records.WithLabelValues(output, string(reason)).Inc()
	s.undelivered.WithLabelValues(s.events.namespace(namespace), output, string(reason)).Add(float64(occurrences))
}
