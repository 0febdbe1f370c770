package policy

import (
	"slices"
	"strings"
)

// UserDependent returns the names of the rules that depend on the user who writes an Event, by a condition or by a bucket for each user.
func (r Rules) UserDependent() (names []string) {
	for _, p := range r.Policies {
		if p.Match.readsUser() || p.SpamFilter.Enabled && slices.Contains(p.SpamFilter.Per, KeyUser) {
			names = append(names, p.Name)
		}
	}
	for _, q := range r.Quotas {
		if q.Match.readsUser() || slices.ContainsFunc(q.Limits, func(l QuotaLimit) bool { return slices.Contains(l.Per, KeyUser) }) {
			names = append(names, q.Name)
		}
	}
	return names
}

// readsUser reports whether a condition may read the user.
func (m *Match) readsUser() bool {
	return slices.ContainsFunc(m.Conditions, func(c Condition) bool { return strings.Contains(c.expression.Text, "userInfo") })
}
