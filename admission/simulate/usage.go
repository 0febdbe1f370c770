package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// usage asks a Set, and finds out which of its rules apply. Memory and time grow with the rules that no Event has
// met yet, of the cluster and of the namespace.
type usage struct {
	set        *policy.Set
	namespaces map[string]policy.Namespace
	all        []*tried
	// open are those that no Event has met yet, by their namespaces, and byRule all of them.
	open   map[string][]*tried
	byRule map[*policy.Rule]*tried
	limits map[*policy.QuotaLimit]bool
	failed map[failedKey]*FailedCondition
}

type failedKey struct{ rule, condition string }

// tried is a rule and how far Events have come with it.
type tried struct {
	*policy.Rule

	limits []policy.QuotaLimit // of a quota
	far    stage
	before string // what stands before the rule
	used   bool
}

// stage is how far an Event comes on its way to a rule.
type stage int

const (
	nowhere stage = iota
	inNamespace
	ofType
	ofReason
	byController
	ofKind // and all lists: conditions are next
	matching
)

var _ admission.Policies = (*usage)(nil)

func newUsage(r *Rules) *usage {
	u := &usage{
		set: r.set(), namespaces: r.Namespaces, open: map[string][]*tried{}, byRule: map[*policy.Rule]*tried{},
		limits: map[*policy.QuotaLimit]bool{}, failed: map[failedKey]*FailedCondition{},
	}
	u.add(r.Cluster)
	for _, name := range slices.Sorted(maps.Keys(r.Namespaces)) {
		u.add(r.Namespaces[name].Rules)
	}
	return u
}

// add adds rules.
func (u *usage) add(r policy.Rules) {
	for _, p := range r.Policies {
		u.keep(&tried{Rule: &p.Rule})
	}
	for _, q := range r.Quotas {
		u.keep(&tried{Rule: &q.Rule, limits: q.Limits})
	}
}

func (u *usage) keep(t *tried) {
	u.all, u.byRule[t.Rule] = append(u.all, t), t
	if t.Mode != policy.Disabled {
		u.open[t.Identity.Namespace] = append(u.open[t.Identity.Namespace], t)
	}
}

// For implements admission.Policies.
func (u *usage) For(ctx context.Context, namespace string, e *corev1.Event, r *policy.Request) policy.Governing {
	g := u.set.For(ctx, namespace, e, r)
	for _, failed := range g.Errors {
		u.count(failed)
	}
	u.use(&g.Policy.Rule)
	if g.Audit != nil {
		u.use(&g.Audit.Rule)
	}
	for _, limits := range []func(func(*policy.Quota, *policy.QuotaLimit) bool){g.Limits(), g.AuditLimits()} {
		for q, l := range limits {
			u.use(&q.Rule)
			u.limits[l] = true
		}
	}
	u.try(ctx, "", namespace, e, r, &g)
	u.try(ctx, namespace, namespace, e, r, &g)
	return g
}

func (u *usage) use(r *policy.Rule) {
	if t := u.byRule[r]; t != nil {
		t.used = true
	}
}

func (u *usage) count(failed *policy.EvaluationError) {
	k := failedKey{failed.Rule.Name, failed.Condition}
	if u.failed[k] == nil {
		u.failed[k] = &FailedCondition{Rule: k.rule, Condition: k.condition, Example: clip(failed.Err.Error())}
	}
	u.failed[k].Count++
}

// try finds out how far an Event comes with the open rules of the cluster or of its namespace.
func (u *usage) try(ctx context.Context, of, namespace string, e *corev1.Event, r *policy.Request, g *policy.Governing) {
	open := u.open[of]
	if len(open) == 0 {
		return
	}
	u.open[of] = slices.DeleteFunc(open, func(t *tried) bool { return t.used || t.far == matching })
	for _, t := range u.open[of] {
		far := u.reached(ctx, t, namespace, e, r)
		t.far = max(t.far, far)
		if far == matching {
			t.before = u.before(t, g)
		}
	}
}

// reached is how far an Event comes with a rule.
func (u *usage) reached(ctx context.Context, t *tried, namespace string, e *corev1.Event, r *policy.Request) stage {
	m := &t.Match
	ls := u.namespaces[namespace].Labels
	if ls == nil {
		ls = labels.Set{corev1.LabelMetadataName: namespace}
	}
	if m.Namespaces != nil && !m.Namespaces.Matches(ls) {
		return nowhere
	}
	if unmet := m.Unmet(e); unmet != "" {
		return inNamespace + stage(slices.IndexFunc(t.lists(), func(l list) bool { return l.name == unmet }))
	}
	if matches, err := u.set.Matches(ctx, t.Rule, namespace, e, r); matches || len(t.limits) > 0 && errors.Is(err, policy.ErrBudget) {
		return matching
	}
	return ofKind
}

// list is one of a match.
type list struct {
	name   string
	values []string
}

func (t *tried) lists() []list {
	m := &t.Match
	return []list{{"types", m.Types}, {"reasons", m.Reasons}, {"controllers", m.Controllers}, {"kinds", m.Kinds}}
}

// before says what stands before a rule that matches and does not apply.
func (u *usage) before(t *tried, g *policy.Governing) string {
	switch {
	case len(t.limits) > 0 && g.Policy.Action == policy.Exempt:
		return g.Policy.Name + " exempts its Events"
	case len(t.limits) > 0:
		return u.replacing(t, t.limits[0].Name)
	case t.Mode == policy.Audit && g.Audit != nil:
		return g.Audit.Name + " is audited before it"
	}
	if g.Policy.Name == policy.DefaultName {
		return "the default policy governs before it"
	}
	return g.Policy.Name + " governs before it"
}

// replacing says which quota of the cluster has a limit of a name that goes before that of t.
func (u *usage) replacing(t *tried, limit string) string {
	for _, o := range u.all {
		first := cmp.Or(cmp.Compare(o.Precedence, t.Precedence), cmp.Compare(o.Identity.Name, t.Identity.Name)) < 0
		named := slices.ContainsFunc(o.limits, func(l policy.QuotaLimit) bool { return l.Name == limit })
		if first && named && o.used && o.Identity.Namespace == "" {
			return fmt.Sprintf("limit %q of %s replaces it", limit, o.Name)
		}
	}
	return "no Event needed it"
}

// unused are the rules and limits that applied to nothing.
func (u *usage) unused() (all []Unused) {
	for _, t := range u.all {
		if !t.used {
			all = append(all, Unused{Rule: t.Name, Why: u.why(t)})
			continue
		}
		for i := range t.limits {
			if l := &t.limits[i]; !u.limits[l] {
				all = append(all, Unused{Rule: t.Name, Limit: l.Name, Why: u.replacing(t, l.Name)})
			}
		}
	}
	return all
}

func (u *usage) why(t *tried) string {
	where := "its namespaces"
	if t.Identity.Namespace != "" {
		where = "namespace " + t.Identity.Namespace
	}
	switch {
	case t.Mode == policy.Disabled:
		return "its mode is Disabled"
	case t.far == nowhere && t.Identity.Namespace != "":
		return "there is no Event in " + where
	case t.far == nowhere:
		return "its namespaceSelector selects no namespace that has Events"
	case t.far == matching:
		return t.before
	}
	var fields []string
	for i, list := range t.lists() {
		if len(list.values) > 0 && inNamespace+stage(i) <= t.far {
			fields = append(fields, "match."+list.name)
		}
	}
	if t.far == ofKind {
		fields = append(fields, "all of match.conditions")
	}
	return "no Event of " + where + " meets " + strings.Join(fields, " and ")
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
