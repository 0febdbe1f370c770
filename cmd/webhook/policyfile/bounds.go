package policyfile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/policy"
)

// scope is a namespace and a kind; the bounds hold for each scope.
type scope struct{ namespace, kind string }

// namespacedRule is a policy or quota of a namespace. compiled is empty if it is invalid.
type namespacedRule struct {
	policy.Candidate

	compiled policy.Rules
}

// addNamespaced adds a rule of a namespace. It returns an error if the rule is too large.
func (r *Rules) addNamespaced(u *unstructured.Unstructured, compiled policy.Rules) error {
	rule := namespacedRule{policy.Candidate{Created: u.GetCreationTimestamp().Time, Name: u.GetName(), UID: u.GetUID()}, compiled}
	match, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "match")
	rule.Size = policy.SizeOf(match)
	limits, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "limits")
	list, _ := limits.([]any)
	rule.Limits = len(list)
	err := policy.CheckSize(u.GetKind(), rule.Size)
	if err != nil {
		rule.compiled, rule.Size, rule.Limits = policy.Rules{}, 0, 0
	}
	s := scope{u.GetNamespace(), u.GetKind()}
	r.namespaced[s] = append(r.namespaced[s], rule)
	n := r.Namespaces[s.namespace]
	n.Add(rule.compiled)
	r.Namespaces[s.namespace] = n
	return err
}

// applyBounds excludes the rules that replicas would exclude, because of the bounds of a namespace or the budget of the
// cluster's conditions. Rules of files have no creation time, so their names decide which are the oldest.
func (r *Rules) applyBounds() {
	excluded := r.Set().Excluded()
	for _, name := range slices.Sorted(maps.Keys(excluded)) {
		r.exclude(name, "spec.match.conditions", excluded[name])
	}
	for name, n := range r.Namespaces {
		n.Rules = policy.Rules{}
		r.Namespaces[name] = n
	}
	for _, s := range slices.SortedFunc(maps.Keys(r.namespaced), func(a, b scope) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.kind, b.kind))
	}) {
		all := r.namespaced[s]
		slices.SortFunc(all, func(a, b namespacedRule) int { return a.CompareAge(&b.Candidate) })
		candidates := make([]policy.Candidate, len(all))
		for i := range all {
			candidates[i] = all[i].Candidate
		}
		n := r.Namespaces[s.namespace]
		for i, why := range policy.Exclusions(s.kind, candidates) {
			if why != nil {
				r.exclude(fmt.Sprintf("%s %s/%s", s.kind, s.namespace, all[i].Name), "", why)
				continue
			}
			n.Add(all[i].compiled)
		}
		r.Namespaces[s.namespace] = n
	}
}

// exclude reports in Invalid that a rule is not in force, and why.
func (r *Rules) exclude(name, field string, why error) {
	for _, o := range r.Objects {
		if o.Name == name {
			r.Invalid = append(r.Invalid, o.Problem(RuleTooMany, field, "is not in force: "+why.Error()))
			return
		}
	}
	r.Invalid = append(r.Invalid, fmt.Errorf("%s: is not in force: %w", name, why))
}
