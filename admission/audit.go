package admission

import (
	"cmp"
	"context"
	"fmt"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// audit finds out what would become of a write if nothing were in mode Audit,
// and returns a warning for its writer, or none. It asks about each write once:
// a CREATE in the mutating phase, as one that is refused there comes to no other.
func (g *Gate) audit(ctx context.Context, q question) string {
	p := q.gov.Audit
	if p == nil && len(q.gov.AuditFloor) > 0 {
		p = q.gov.Policy
	}
	if p == nil || g.Audit == nil || q.DryRun {
		return ""
	}
	q.gov.OnStoreFailure = policy.FailureAdmit // nothing is decided here for good
	all := both(q.gov.Quotas(), q.gov.AuditQuotas())
	d := store.Decision{Verdict: store.Admit}
	var err error
	if q.Operation == admissionv1.Create {
		d, err = g.merge(ctx, g.Audit, q, p, all)
	}
	if err == nil && (d.Verdict == store.Admit || d.Verdict == store.Aggregate) {
		d, err = g.take(ctx, g.Audit, q, p, all)
	}
	if err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("Event write not audited", "policy", p.Name, "reason", err.Error())
		return ""
	}
	g.tellAudited(q, p, d)
	return warning(q, d, cmp.Or(d.Empty.Policy, p.Name))
}

// warning says what a policy in mode Audit would have done to a write.
func warning(q question, d store.Decision, owner string) string {
	if !warns(q.gov, owner) {
		return ""
	}
	switch d.Verdict {
	case store.Merge:
		return fmt.Sprintf("policy %q, which is audited, would merge this Event", owner)
	case store.Drop:
		return fmt.Sprintf("policy %q, which is audited, would drop this Event", owner)
	case store.Admit, store.Aggregate, store.Deny:
	}
	return ""
}

// warns tells whether a policy in mode Audit is to be heard of.
func warns(gov policy.Governing, name string) bool {
	if gov.Audit != nil && gov.Audit.Name == name {
		return gov.Audit.AuditWarnings
	}
	for _, p := range gov.AuditFloor {
		if p.Name == name {
			return p.AuditWarnings
		}
	}
	return false
}

// both is one sequence after the other.
func both(a, b quotas) quotas {
	return func(yield func(*policy.Policy, *policy.Quota) bool) {
		for _, all := range []quotas{a, b} {
			for owner, quota := range all {
				if !yield(owner, quota) {
					return
				}
			}
		}
	}
}
