package simulate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

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

// FailedCondition is a condition that could not be evaluated.
type FailedCondition struct {
	Rule      string `json:"rule"`
	Condition string `json:"condition"`
	// Count is for how many writes.
	Count int64 `json:"count"`
	// Example is the first error.
	Example string `json:"example"`
}

// usage asks a Set, and notes which of its rules and limits apply.
type usage struct {
	set        *policy.Set
	namespaces map[string]policy.Namespace
	all        policy.Rules
	used       map[*policy.Rule]bool
	limits     map[*policy.QuotaLimit]bool
	// open are the rules whose lists no Event has met yet, and far is how many of its parts one has.
	open   []*policy.Rule
	far    map[*policy.Rule]int
	failed map[failedKey]*FailedCondition
}

type failedKey struct{ rule, condition string }

var _ admission.Policies = (*usage)(nil)

func newUsage(r *Rules) *usage {
	u := &usage{
		set: policy.NewSet(policy.Default(), r.Cluster, r.Namespaces), namespaces: r.Namespaces,
		used: map[*policy.Rule]bool{}, limits: map[*policy.QuotaLimit]bool{}, far: map[*policy.Rule]int{},
		failed: map[failedKey]*FailedCondition{},
	}
	u.all.Add(r.Cluster)
	for _, name := range slices.Sorted(maps.Keys(r.Namespaces)) {
		u.all.Add(r.Namespaces[name].Rules)
	}
	u.open = slices.Collect(u.all.All())
	return u
}

// For implements admission.Policies.
func (u *usage) For(ctx context.Context, namespace string, e *corev1.Event, r *policy.Request) policy.Governing {
	g := u.set.For(ctx, namespace, e, r)
	for _, failed := range g.Errors {
		k := failedKey{failed.Rule.Name, failed.Condition}
		if u.failed[k] == nil {
			u.failed[k] = &FailedCondition{Rule: k.rule, Condition: k.condition, Example: clip(failed.Err.Error())}
		}
		u.failed[k].Count++
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
	u.open = slices.DeleteFunc(u.open, func(r *policy.Rule) bool {
		unmet := u.unmet(r, namespace, e)
		u.far[r] = max(u.far[r], slices.Index(parts(), unmet))
		return unmet == ""
	})
	return g
}

// parts are what an Event must meet of a match, in order; the conditions come last.
func parts() []string { return []string{"namespaces", "types", "reasons", "controllers", "kinds", ""} }

// unmet is the first of them that an Event does not meet; empty if only conditions are left.
func (u *usage) unmet(r *policy.Rule, namespace string, e *corev1.Event) string {
	ls := u.namespaces[namespace].Labels
	if ls == nil {
		ls = labels.Set{corev1.LabelMetadataName: namespace}
	}
	if own := r.Identity.Namespace; own != "" && own != namespace || r.Match.Namespaces != nil && !r.Match.Namespaces.Matches(ls) {
		return "namespaces"
	}
	return r.Match.Unmet(e)
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
	unmet := parts()[u.far[r]]
	switch {
	case r.Mode == policy.Disabled:
		return "its mode is Disabled"
	case unmet == "namespaces":
		return "there is no Event in its namespaces"
	case unmet != "":
		return "no Event gets past its match." + unmet
	}
	if shadowed := u.set.Shadowed(r.Identity.Namespace)[r.Name]; len(shadowed) > 0 {
		return strings.Join(shadowed, "; ")
	}
	if len(r.Match.Conditions) > 0 {
		return "no Event meets its conditions, or others decide before it"
	}
	return "others decide before it"
}

// failedConditions are those that could not be evaluated, the one that failed most first.
func (u *usage) failedConditions() (all []FailedCondition) {
	for _, one := range u.failed {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b FailedCondition) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Condition, b.Condition))
	})
	return all
}
