package simulate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Outcome is what became of a write: an outcome of admission, or one of these.
type Outcome string

const (
	// Failed is a write that admission let pass and the API server did not take:
	// its name was taken, or there was none.
	Failed Outcome = "failed"
	// Unknown is a write to an Event of which the input does not say enough.
	Unknown Outcome = "unknown"
)

// Decision is what became of one write.
type Decision struct {
	Time time.Time `json:"time"`
	File string    `json:"file"`
	Line int64     `json:"line"`
	// AuditID is empty but for a line of an audit log.
	AuditID   string  `json:"auditID,omitempty"`
	Verb      string  `json:"verb"`
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Outcome   Outcome `json:"outcome"`
	// Message is what a refused client would have been told.
	Message string `json:"message,omitempty"`
}

// decided counts and tells what became of a write.
func (r *run) decided(w *write, e *corev1.Event, o Outcome, message string) {
	r.result.Outcomes[o]++
	r.result.Timeline.count(w.at, o, 1)
	if !w.free {
		r.result.EtcdWrites.Before++
	}
	if r.opts.Decided == nil {
		return
	}
	d := Decision{
		Time: w.at, File: r.trace.Input.Files[w.file], Line: w.line, AuditID: w.id, Verb: w.verb.String(),
		Namespace: w.namespace, Name: w.name, Outcome: o, Message: message,
	}
	if e != nil && d.Name == "" {
		d.Name = e.Name
	}
	r.opts.Decided(d)
}
