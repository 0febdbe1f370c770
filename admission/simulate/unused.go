package simulate

import (
	"context"
	"errors"
	"fmt"
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
	// Limit is empty if the entry is about the whole rule.
	Limit string `json:"limit,omitempty"`
	Why   string `json:"why"`
}

// UnknownMatch is a part of a rule's spec.match that could not be evaluated. In that case a policy does not match, and a quota
// applies.
type UnknownMatch struct {
	Rule  string `json:"rule"`
	Field string `json:"field"`
	// Count is the number of affected writes.
	Count int64 `json:"count"`
	// Example is the first error.
	Example string `json:"example"`
}

// ruleUsage resolves rules with a Set and notes which rules and limits apply.
type ruleUsage struct {
	set     *policy.Set
	all     policy.Rules
	used    map[*policy.Rule]bool
	limits  map[*policy.QuotaLimit]bool
	unknown []UnknownMatch
	// governing is the policy of the last result.
	governing string
}

func newUsage(r *Rules) *ruleUsage {
	u := &ruleUsage{
		set: policy.NewSet(policy.Default(), r.Cluster, r.Namespaces), used: map[*policy.Rule]bool{}, limits: map[*policy.QuotaLimit]bool{},
	}
	u.all.Add(r.Cluster)
	for _, name := range slices.Sorted(maps.Keys(r.Namespaces)) {
		u.all.Add(r.Namespaces[name].Rules)
	}
	return u
}

// Resolve implements admission.Policies.
func (u *ruleUsage) Resolve(ctx context.Context, namespace string, e *corev1.Event, r *policy.Request) policy.Resolution {
	g := u.set.Resolve(ctx, namespace, e, r)
	u.note(namespace, &g)
	return g
}

// note notes the rules that apply to a write.
func (u *ruleUsage) note(namespace string, g *policy.Resolution) {
	for _, f := range g.Errors {
		i := slices.IndexFunc(u.unknown, func(is UnknownMatch) bool { return is.Rule == f.Rule.Name && is.Field == f.Field })
		if i < 0 {
			i = len(u.unknown)
			u.unknown = append(u.unknown, UnknownMatch{Rule: f.Rule.Name, Field: f.Field, Example: admission.Truncate(example(namespace, f.Err), maxErrorBytes)})
		}
		u.unknown[i].Count++
	}
	u.used[&g.Policy.Rule], u.governing = true, g.Policy.Name
	if g.AuditPolicy != nil {
		u.used[&g.AuditPolicy.Rule] = true
	}
	for _, limits := range []func(func(*policy.Quota, *policy.QuotaLimit) bool){g.Limits(), g.AuditLimits()} {
		for q, l := range limits {
			u.used[&q.Rule], u.limits[l] = true, true
		}
	}
}

// example describes why a rule could not be evaluated for an Event in a namespace.
func example(namespace string, err error) string {
	if errors.Is(err, policy.ErrNotSynced) { // to a replica; here it never is
		return fmt.Sprintf("the input lacks Namespace %q, whose labels and annotations it reads", namespace)
	}
	return err.Error()
}

// unused returns the rules and limits that applied to no write.
func (u *ruleUsage) unused() (all []Unused) {
	for r := range u.all.All() {
		if !u.used[r] {
			all = append(all, Unused{Rule: r.Name, Why: u.why(r)})
		}
	}
	for _, q := range u.all.Quotas {
		for i := range q.Limits {
			if l := &q.Limits[i]; u.used[&q.Rule] && !u.limits[l] {
				all = append(all, Unused{Rule: q.Name, Limit: l.Name, Why: "a limit with this name in another quota takes precedence"})
			}
		}
	}
	return all
}

// userDependent returns the evaluated rules that depend on the user.
func (u *ruleUsage) userDependent() []string {
	return slices.DeleteFunc(u.all.UserDependent(), func(name string) bool {
		for r := range u.all.All() {
			if r.Name == name {
				return r.Mode == policy.Disabled
			}
		}
		return true
	})
}

func (u *ruleUsage) why(r *policy.Rule) string {
	if r.Mode == policy.Disabled {
		return "its mode is Disabled"
	}
	if why := u.set.Excluded()[r.Name]; why != nil {
		return why.Error()
	}
	if shadowed := u.set.Shadowed(r.Identity.Namespace)[r.Name]; len(shadowed) > 0 {
		return strings.Join(shadowed, "; ")
	}
	if slices.ContainsFunc(u.unknown, func(m UnknownMatch) bool { return m.Rule == r.Name }) {
		return "it is not known to match any Event"
	}
	return "it matches no Event, or other rules decide first"
}
