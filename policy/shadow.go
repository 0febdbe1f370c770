package policy

import (
	"fmt"
	"slices"
)

// Shadowed returns the rules of a namespace, or of the cluster for "", that never apply. It maps each name to the reasons, one
// a line. A policy is shadowed by another one that governs all Events it matches. A limit of a cluster quota is shadowed by
// the limit that always replaces it. Disabled rules are omitted.
//
// A match covers another one if each of its lists is empty or includes the other list, and if all of its conditions are
// conditions of the other one too.
func (s *Set) Shadowed(namespace string) map[string][]string {
	found := map[string][]string{}
	policies, uncertain := s.cluster.Policies, map[*Rule]bool(nil)
	if namespace != "" {
		v := s.view(namespace)
		policies, uncertain = v.Policies, v.uncertain
	}
	for n, p := range policies {
		by := slices.IndexFunc(policies[:n], func(before *Policy) bool { return !uncertain[&before.Rule] && before.shadows(&p.Rule) })
		if by >= 0 && p.Identity.Namespace == namespace {
			found[p.Name] = []string{fmt.Sprintf("governed by %s, which comes first", policies[by].Name)}
		}
	}
	if namespace != "" {
		return found
	}
	for n, q := range s.cluster.Quotas {
		for i := range q.Limits {
			name := q.Limits[i].Name
			by := slices.IndexFunc(s.cluster.Quotas[:n], func(before *Quota) bool {
				return before.hasLimit(name) && before.alwaysDecidable() && before.shadows(&q.Rule)
			})
			if by >= 0 {
				found[q.Name] = append(found[q.Name], fmt.Sprintf("limit %q is replaced by that of %s", name, s.cluster.Quotas[by].Name))
			}
		}
	}
	return found
}

// alwaysDecidable reports whether the match of r is always known for readable Events of known namespaces.
func (r *Rule) alwaysDecidable() bool {
	return len(r.Match.Conditions) == 0 && len(r.Match.Messages) == 0
}

// hasLimit reports whether q has a limit with that name.
func (q *Quota) hasLimit(name string) bool {
	return slices.ContainsFunc(q.Limits, func(l QuotaLimit) bool { return l.Name == name })
}

// shadows reports whether r, which comes first, decides every Event that other would decide.
func (r *Rule) shadows(other *Rule) bool {
	if r.Mode == Audit && other.Mode != Audit {
		return false
	}
	m, o := &r.Match, &other.Match
	return covers(m.Types, o.Types) && covers(m.Reasons, o.Reasons) && covers(m.Controllers, o.Controllers) && covers(m.Kinds, o.Kinds) &&
		covers(globTexts(m.Messages), globTexts(o.Messages)) &&
		!slices.ContainsFunc(m.Conditions, func(c Condition) bool { return !o.hasCondition(c.expression.Text) }) &&
		// A namespace's own rule comes after those of the cluster that select the namespace.
		(m.Namespaces == nil || other.namespaced() || o.Namespaces != nil && m.Namespaces.String() == o.Namespaces.String())
}

func (m *Match) hasCondition(expression string) bool {
	return slices.ContainsFunc(m.Conditions, func(c Condition) bool { return c.expression.Text == expression })
}

// covers reports whether a list matches everything that other matches.
func covers(list, other []string) bool {
	return len(list) == 0 || len(other) > 0 && !slices.ContainsFunc(other, func(v string) bool { return !slices.Contains(list, v) })
}

// globTexts returns the texts of globs.
func globTexts(globs []Glob) (all []string) {
	for i := range globs {
		all = append(all, globs[i].Text)
	}
	return all
}
