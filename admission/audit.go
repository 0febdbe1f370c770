package admission

import (
	"cmp"
	"context"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// audit finds out what would become of a write if nothing were in mode Audit,
// and returns a warning for its writer, or none.
func (g *Gate) audit(ctx context.Context, q *question) string {
	p := q.gov.Audit
	if p == nil && len(q.gov.AuditFloor) > 0 {
		p = q.gov.Policy
	}
	if p == nil || g.Audit == nil {
		return ""
	}
	d, err := g.ask(ctx, g.Audit, q, p, both(q.gov.Quotas(), q.gov.AuditQuotas()))
	if err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("Event write not audited", "policy", p.Name, "reason", err.Error())
		return ""
	}
	g.passOnAudited(q, p, d)
	return warning(q, d, cmp.Or(emptyBucket(d).Policy, p.Name))
}

// warning says what a policy in mode Audit would have done to a write.
func warning(q *question, d store.Decision, owner string) string {
	if !warns(&q.gov, owner) {
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

// warns tells whether a policy in mode Audit answers writers with warnings.
func warns(gov *policy.Governing, name string) bool {
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
