package policy

import "iter"

// Governing is what applies to one Event.
type Governing struct {
	// Policy governs the Event. It is never nil and never in mode Audit.
	Policy *Policy
	// Audit would govern the Event if its mode were Enforce, or is nil: the
	// first policy in mode Audit that matches before Policy does.
	Audit *Policy
	// Floor are the cluster policies that match: their quotas apply, whichever
	// policy governs.
	Floor []*Policy
	// AuditFloor are those in mode Audit, whose quotas are counted only.
	AuditFloor []*Policy
	// OnStoreFailure is what becomes of the Event while the store is unavailable. A
	// tenant has no say in it: where a namespace's own policy governs, it is
	// that of the first cluster policy of tier Baseline that matches.
	OnStoreFailure OnStoreFailure
	// Errors are about conditions that could not be evaluated.
	Errors []*EvaluationError
}

// Quotas are all quotas that apply, each with the policy it is of: those of
// the floor first.
func (g *Governing) Quotas() iter.Seq2[*Policy, *Quota] { return quotas(g.Floor, g.Policy) }

// AuditQuotas are the quotas that would apply beside Quotas if no policy were
// in mode Audit.
func (g *Governing) AuditQuotas() iter.Seq2[*Policy, *Quota] { return quotas(g.AuditFloor, g.Audit) }

func quotas(floor []*Policy, governing *Policy) iter.Seq2[*Policy, *Quota] {
	return func(yield func(*Policy, *Quota) bool) {
		for _, p := range floor {
			for i := range p.Quotas {
				if !yield(p, &p.Quotas[i]) {
					return
				}
			}
		}
		if governing == nil || governing.Match.Tier != "" {
			return // a cluster policy with quotas is part of the floor
		}
		for i := range governing.Quotas {
			if !yield(governing, &governing.Quotas[i]) {
				return
			}
		}
	}
}
