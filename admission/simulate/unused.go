package simulate

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// Unused is a policy that governed no Event, or a quota or one of its limits that applied to none.
type Unused struct {
	Rule string `json:"rule"`
	// Limit is empty where all of Rule is meant.
	Limit string `json:"limit,omitempty"`
	Why   string `json:"why"`
}

// FailedCondition is a condition of which it is unknown whether it holds. The policy does not match then, and the quota
// applies.
type FailedCondition struct {
	Rule string `json:"rule"`
	// Condition is empty where it is match.messages that is unknown.
	Condition string `json:"condition,omitempty"`
	// Count is for how many writes.
	Count int64 `json:"count"`
	// Example is the first error.
	Example string `json:"example"`
}

// usage asks a Set, and notes which of its rules and limits apply.
type usage struct {
	set    *policy.Set
	all    policy.Rules
	used   map[*policy.Rule]bool
	limits map[*policy.QuotaLimit]bool
	failed []FailedCondition
}

func newUsage(r *Rules) *usage {
	u := &usage{
		set: policy.NewSet(policy.Default(), r.Cluster, r.Namespaces), used: map[*policy.Rule]bool{}, limits: map[*policy.QuotaLimit]bool{},
	}
	u.all.Add(r.Cluster)
	for _, name := range slices.Sorted(maps.Keys(r.Namespaces)) {
		u.all.Add(r.Namespaces[name].Rules)
	}
	return u
}

// For implements admission.Policies.
func (u *usage) For(ctx context.Context, namespace string, e *corev1.Event, r *policy.Request) policy.Governing {
	g := u.set.For(ctx, namespace, e, r)
	for _, f := range g.Errors {
		i := slices.IndexFunc(u.failed, func(is FailedCondition) bool { return is.Rule == f.Rule.Name && is.Condition == f.Condition })
		if i < 0 {
			i = len(u.failed)
			u.failed = append(u.failed, FailedCondition{Rule: f.Rule.Name, Condition: f.Condition, Example: admission.Truncate(f.Err.Error(), errorBytes)})
		}
		u.failed[i].Count++
	}
	u.used[&g.Policy.Rule] = true
	if g.Audit != nil {
		u.used[&g.Audit.Rule] = true
	}
	for _, limits := range []func(func(*policy.Quota, *policy.QuotaLimit) bool){g.Limits(), g.AuditLimits()} {
		for q, l := range limits {
			u.used[&q.Rule], u.limits[l] = true, true
		}
	}
	return g
}

// unused are the rules and limits that applied to nothing.
func (u *usage) unused() (all []Unused) {
	for r := range u.all.All() {
		if !u.used[r] {
			all = append(all, Unused{Rule: r.Name, Why: u.why(r)})
		}
	}
	for _, q := range u.all.Quotas {
		for i := range q.Limits {
			if l := &q.Limits[i]; u.used[&q.Rule] && !u.limits[l] {
				all = append(all, Unused{Rule: q.Name, Limit: l.Name, Why: "another quota has a limit of this name and goes before it"})
			}
		}
	}
	return all
}

func (u *usage) why(r *policy.Rule) string {
	if r.Mode == policy.Disabled {
		return "its mode is Disabled"
	}
	if why := u.set.LeftOut()[r.Name]; why != nil {
		return why.Error()
	}
	if shadowed := u.set.Shadowed(r.Identity.Namespace)[r.Name]; len(shadowed) > 0 {
		return strings.Join(shadowed, "; ")
	}
	return "it matches no Event, or others decide before it"
}
