package admission

import "github.com/eventquota/eventquota/store"

// Sink takes copies of Event writes, for example for logs. Its methods must be safe for concurrent use, must not block or
// panic, and must not keep any part of their arguments.
type Sink interface {
	// CopyDecided is called for each decided Event write, but not for decisions of audit mode.
	CopyDecided(d *FullDecision)
	// CopyUndecided is called for each Event write that is answered without a decision. Its Object is nil if it was not
	// decoded.
	CopyUndecided(r *Request, o Outcome)
}

// FullDecision is a DecidedWrite with the store's arguments and its decision.
type FullDecision struct {
	DecidedWrite

	Decision store.Decision
	// Write is nil if no store decided because nothing merges or limits the Event.
	Write *store.Write
	// BySpamFilter is true if the spam filter refused the Event. Then the notice of the group of Write reports the drop,
	// and not the notice of a quota.
	BySpamFilter bool
}

// copyDecided passes a decision to the Sink.
func (g *Gate) copyDecided(q *evaluation, decided *DecidedWrite, d *store.Decision) {
	full := &FullDecision{DecidedWrite: *decided, Decision: *d}
	if q.built {
		full.Write = &q.storeWrite
	}
	full.BySpamFilter = d.RefusedBy != nil && !q.spamFilterKey.IsZero() && d.RefusedBy.Key == q.spamFilterKey
	g.Sink.CopyDecided(full)
}

// copyUndecided passes a write that was answered without a decision to the Sink.
func (g *Gate) copyUndecided(r *Request, o Outcome) {
	if g.Sink != nil && !r.DryRun {
		g.Sink.CopyUndecided(r, o)
	}
}
