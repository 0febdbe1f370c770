package policy

import (
	"cmp"
	"iter"
)

// Governing is what applies to one Event.
type Governing struct {
	// Policy governs the Event. It is never nil and never in mode Audit.
	Policy *Policy
	// Audit would govern the Event if its mode were Enforce, or is nil: the first policy in mode Audit that
	// matches before Policy does.
	Audit *Policy
	// Errors are about conditions that could not be evaluated.
	Errors []*EvaluationError

	quotas matching
}

// matching are quotas. A few of them cost no allocation.
type matching struct {
	few  [16]*Quota
	n    int
	more []*Quota
}

func (m *matching) add(q *Quota) {
	if m.n < len(m.few) {
		m.few[m.n] = q
		m.n++
		return
	}
	m.more = append(m.more, q)
}

func (m *matching) all(yield func(*Quota) bool) {
	for _, q := range m.few[:m.n] {
		if !yield(q) {
			return
		}
	}
	for _, q := range m.more {
		if !yield(q) {
			return
		}
	}
}

// Limits are the limits that apply under Policy, each with the quota it is of: those of the cluster first.
func (g *Governing) Limits() iter.Seq2[*Quota, *QuotaLimit] { return g.limits(g.Policy, false) }

// AuditLimits are those that would apply if no rule were in mode Audit.
func (g *Governing) AuditLimits() iter.Seq2[*Quota, *QuotaLimit] {
	return g.limits(cmp.Or(g.Audit, g.Policy), true)
}

// Limited reports whether any quota matches.
func (g *Governing) Limited() bool { return g.quotas.n > 0 }

// Rule is the policy that governs or is audited, or the quota that matches, of a name; nil for none.
func (g *Governing) Rule(name string) *Rule {
	for _, p := range []*Policy{g.Policy, g.Audit} {
		if p != nil && p.Name == name {
			return &p.Rule
		}
	}
	for q := range g.quotas.all {
		if q.Name == name {
			return &q.Rule
		}
	}
	return nil
}

// Audited reports whether a quota in mode Audit matches.
func (g *Governing) Audited() bool {
	for q := range g.quotas.all {
		if q.Mode == Audit {
			return true
		}
	}
	return false
}

func (g *Governing) limits(p *Policy, audited bool) iter.Seq2[*Quota, *QuotaLimit] {
	return func(yield func(*Quota, *QuotaLimit) bool) {
		for q := range g.quotas.all {
			own := q.Identity.Namespace != ""
			if q.Mode == Audit && !audited || p.Action == Exempt && (own || p.Identity.Namespace == "") {
				continue
			}
			for i := range q.Limits {
				if l := &q.Limits[i]; (own || !g.replaced(q, l, audited)) && !yield(q, l) {
					return
				}
			}
		}
	}
}

// replaced reports whether a quota of the cluster that goes before q has a limit of the same name.
func (g *Governing) replaced(q *Quota, l *QuotaLimit, audited bool) bool {
	for before := range g.quotas.all {
		if before == q {
			return false
		}
		if before.Mode == Audit && !audited {
			continue
		}
		for i := range before.Limits {
			if before.Limits[i].Name == l.Name {
				return true
			}
		}
	}
	return false
}
