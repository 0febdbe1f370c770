package admission

import (
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/store"
)

// Sink takes copies of Event writes, for logs. Its methods are safe for concurrent use, do not block, do not panic, and
// keep no part of their arguments.
type Sink interface {
	// Decided is called for each Event write that was decided, but not for what is in mode Audit.
	Decided(d *FullDecision)
	// Undecided is called for each Event write that is answered without a decision. Its Object is nil where that was not read.
	Undecided(r *Request, o Outcome)
}

// FullDecision is a Decided with what a store was asked and answered.
type FullDecision struct {
	Decided

	Decision store.Decision
	// Write is nil where no store was asked, as nothing merges or limits the Event.
	Write *store.Write
	// OfGroup says that the notice of Write.Group reports the drop, as its spam filter has refused it, and not that of a quota.
	OfGroup bool
}

// copyDecided passes a decision on to the Sink.
func (g *Gate) copyDecided(q *question, decided *Decided, d *store.Decision) {
	full := &FullDecision{Decided: *decided, Decision: *d}
	if q.made {
		full.Write = &q.written
	}
	full.OfGroup = d.Empty != nil && !q.spamKey.IsZero() && d.Empty.Key == q.spamKey
	g.Sink.Decided(full)
}

// copyUndecided passes a write that was answered without a decision on to the Sink.
func (g *Gate) copyUndecided(r *Request, o Outcome) {
	written := r.Operation == admissionv1.Create || r.Operation == admissionv1.Update
	if g.Sink != nil && r.isEvent() && written && !r.DryRun {
		g.Sink.Undecided(r, o)
	}
}
