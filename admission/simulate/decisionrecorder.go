package simulate

import (
	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/store"
)

// Audited describes the outcome of a write if all rules in mode Audit were in mode Enforce.
type Audited struct {
	Outcome admission.Outcome `json:"outcome"`
	Refused
}

// Refused names the rule that refused a write. It is empty if none did.
type Refused struct {
	// Limit is the limit of a quota, or the spam filter of a policy. It is empty if Rule drops all Events.
	Limit string `json:"limit,omitempty"`
	// Rule is the name of a policy or quota.
	Rule string `json:"rule,omitempty"`
}

// String names the rule and limit in the same words as messages to clients.
func (r Refused) String() string {
	if r.Limit == "" {
		return r.Rule
	}
	return r.Limit + " of " + r.Rule
}

// decisionRecorder is a Recorder that also notes the rules that decided the current write.
type decisionRecorder struct {
	*Result

	ranked  *ranked
	refused Refused
	audited *Audited
}

// ObserveDecision implements admission.Observer.
func (n *decisionRecorder) ObserveDecision(d admission.DecidedWrite) {
	n.Result.ObserveDecision(d)
	if d.Audited {
		n.audited = &Audited{admission.OutcomeOf(d.Verdict), refused(&d)}
		return
	}
	n.refused = refused(&d)
	n.ranked.add(busiest.WriteOf(&d))
}

func refused(d *admission.DecidedWrite) Refused {
	if d.Verdict != store.Drop && d.Verdict != store.Deny {
		return Refused{}
	}
	return Refused{Limit: d.Bucket, Rule: d.Rule.Name}
}
