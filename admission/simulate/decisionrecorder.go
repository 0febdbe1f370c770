package simulate

import (
	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/store"
)

// Audited is what would have become of a write if all that is in mode Audit were in mode Enforce.
type Audited struct {
	Outcome admission.Outcome `json:"outcome"`
	Refused
}

// Refused says what refused a write; empty where nothing did.
type Refused struct {
	// Limit is the limit of a quota, or the spam filter of a policy. It is empty where Rule drops all.
	Limit string `json:"limit,omitempty"`
	// Rule is a policy or quota.
	Rule string `json:"rule,omitempty"`
}

// String names what refused, as answers do.
func (r Refused) String() string {
	if r.Limit == "" {
		return r.Rule
	}
	return r.Limit + " of " + r.Rule
}

// decisionRecorder is a Recorder that also notes what decided about one write.
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
