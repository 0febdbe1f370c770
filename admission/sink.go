package admission

import (
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/store"
)

// Sink takes copies of Event writes, for logs. Its methods are safe for concurrent use, do not block, do not panic, and
// keep no part of their arguments.
type Sink interface {
	// CopyDecided is called for each Event write that was decided, but not for what is in mode Audit.
	CopyDecided(d *FullDecision)
	// CopyUndecided is called for each Event write that is answered without a decision. Its Object is nil where that was not read.
	CopyUndecided(r *Request, o Outcome)
}

// FullDecision is a DecidedWrite with what a store was asked and answered.
type FullDecision struct {
	DecidedWrite

	Decision store.Decision
	// Write is nil where no store was asked, as nothing merges or limits the Event.
	Write *store.Write
	// BySpamFilter says that the notice of Write.Group reports the drop, as its spam filter has refused it, and not that of a quota.
	BySpamFilter bool
}

// copyDecided passes a decision on to the Sink.
func (g *Gate) copyDecided(q *evaluation, decided *DecidedWrite, d *store.Decision) {
	full := &FullDecision{DecidedWrite: *decided, Decision: *d}
	if q.built {
		full.Write = &q.storeWrite
	}
	full.BySpamFilter = d.RefusedBy != nil && !q.spamFilterKey.IsZero() && d.RefusedBy.Key == q.spamFilterKey
	g.Sink.CopyDecided(full)
}

// copyUndecided passes a write that was answered without a decision on to the Sink.
func (g *Gate) copyUndecided(r *Request, o Outcome) {
	written := r.Operation == admissionv1.Create || r.Operation == admissionv1.Update
	if g.Sink != nil && r.isEvent() && written && !r.DryRun {
		g.Sink.CopyUndecided(r, o)
	}
}
