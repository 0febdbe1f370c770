package policy

import (
	"fmt"
	"slices"
	"unique"
)

// Shadowed says what always stands before a rule: before a policy another one that governs all that it matches, and
// before each limit of a cluster's quota the one that replaces it, a line for each. It is nil if there is none, and
// for a rule that is Disabled or not in s, as those of a namespace that is not compiled.
//
// A match is at least as wide as another one if each of its lists is empty or has all that the other one's has, and
// its conditions are among the other one's.
func (s *Set) Shadowed(i Identity) []string {
	own := s.views[i.Namespace].own
	for _, policies := range [][]*Policy{own.Policies, s.cluster.Policies} {
		if n := slices.IndexFunc(policies, func(p *Policy) bool { return p.Identity == i }); n >= 0 {
			return s.shadowedPolicy(policies[n])
		}
	}
	if n := slices.IndexFunc(s.cluster.Quotas, func(q *Quota) bool { return q.Identity == i }); n >= 0 {
		return shadowedLimits(s.cluster.Quotas[n], s.cluster.Quotas[:n])
	}
	return nil
}

func (s *Set) shadowedPolicy(p *Policy) []string {
	asked := s.cluster.Policies
	if p.Identity.Namespace != "" {
		v := s.views[p.Identity.Namespace]
		asked = slices.Concat(v.admin, v.own.Policies)
	} else {
		asked = slices.Clone(asked)
		slices.SortStableFunc(asked, func(a, b *Policy) int { return a.Tier.order() - b.Tier.order() })
	}
	for _, before := range asked {
		switch {
		case before == p:
			return nil
		case before.hides(&p.Rule):
			return []string{fmt.Sprintf("governed by %s before", before.Name)}
		}
	}
	return nil
}

func (t Tier) order() int {
	if t == TierAdmin {
		return 0
	}
	return 1
}

// shadowedLimits are the limits of q that are replaced, by those of quotas that go before it.
func shadowedLimits(q *Quota, before []*Quota) (all []string) {
	for i := range q.Limits {
		name := q.Limits[i].Name
		by := slices.IndexFunc(before, func(b *Quota) bool {
			return b.hides(&q.Rule) && slices.ContainsFunc(b.Limits, func(l QuotaLimit) bool { return l.Name == name })
		})
		if by >= 0 {
			all = append(all, fmt.Sprintf("limit %q is replaced by that of %s", name, before[by].Name))
		}
	}
	return all
}

// hides reports whether r, which is asked first, decides everything that other would.
func (r *Rule) hides(other *Rule) bool {
	if r.Mode == Audit && other.Mode != Audit {
		return false
	}
	m, o := &r.Match, &other.Match
	return covers(m.Types, o.Types) && covers(m.Reasons, o.Reasons) && covers(m.Controllers, o.Controllers) && covers(m.Kinds, o.Kinds) &&
		!slices.ContainsFunc(m.Conditions, func(c Condition) bool { return !o.has(c.expression) }) &&
		// A namespace's own rule is asked after those of the cluster that select the namespace.
		(m.Namespaces == nil || other.Identity.Namespace != "" || o.Namespaces != nil && m.Namespaces.String() == o.Namespaces.String())
}

func (m *Match) has(expression unique.Handle[string]) bool {
	return slices.ContainsFunc(m.Conditions, func(c Condition) bool { return c.expression == expression })
}

// covers reports whether a list allows all that other allows.
func covers(list, other []string) bool {
	return len(list) == 0 || len(other) > 0 && !slices.ContainsFunc(other, func(v string) bool { return !slices.Contains(list, v) })
}
