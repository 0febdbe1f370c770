package policyfile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/policy"
)

// scope is a kind in a namespace.
type scope struct{ namespace, kind string }

// namespacedRule is a rule of a namespace, which has made nothing unless it is valid.
type namespacedRule struct {
	policy.Candidate

	compiled policy.Rules
}

// addNamespaced adds a rule of a namespace. The error says that it is too large.
func (r *Rules) addNamespaced(u *unstructured.Unstructured, made policy.Rules) error {
	one := namespacedRule{policy.Candidate{Created: u.GetCreationTimestamp().Time, Name: u.GetName(), UID: u.GetUID()}, made}
	match, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "match")
	one.Size = policy.SizeOf(match)
	limits, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "limits")
	list, _ := limits.([]any)
	one.Limits = len(list)
	err := policy.CheckSize(u.GetKind(), one.Size)
	if err != nil {
		one.compiled, one.Size, one.Limits = policy.Rules{}, 0, 0
	}
	at := scope{u.GetNamespace(), u.GetKind()}
	r.namespaced[at] = append(r.namespaced[at], one)
	n := r.Namespaces[at.namespace]
	n.Add(one.compiled)
	r.Namespaces[at.namespace] = n
	return err
}

// applyBounds leaves out what the bounds of a namespace, or of the cluster's conditions, do not let be in force, as replicas do.
// Rules of files have no time of creation, so that their names order them.
func (r *Rules) applyBounds() {
	leftOut := r.Set().Excluded()
	for _, name := range slices.Sorted(maps.Keys(leftOut)) {
		r.exclude(name, "spec.match.conditions", leftOut[name])
	}
	for name, n := range r.Namespaces {
		n.Rules = policy.Rules{}
		r.Namespaces[name] = n
	}
	for _, at := range slices.SortedFunc(maps.Keys(r.namespaced), func(a, b scope) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.kind, b.kind))
	}) {
		all := r.namespaced[at]
		slices.SortFunc(all, func(a, b namespacedRule) int { return a.CompareAge(&b.Candidate) })
		candidates := make([]policy.Candidate, len(all))
		for i := range all {
			candidates[i] = all[i].Candidate
		}
		n := r.Namespaces[at.namespace]
		for i, why := range policy.Exclusions(at.kind, candidates) {
			if why != nil {
				r.exclude(fmt.Sprintf("%s %s/%s", at.kind, at.namespace, all[i].Name), "", why)
				continue
			}
			n.Add(all[i].compiled)
		}
		r.Namespaces[at.namespace] = n
	}
}

// exclude says that a rule is not in force, though it may be valid, and why.
func (r *Rules) exclude(name, field string, why error) {
	for _, o := range r.Objects {
		if o.Name == name {
			r.Invalid = append(r.Invalid, o.Problem(RuleTooMany, field, "is left out: "+why.Error()))
			return
		}
	}
	r.Invalid = append(r.Invalid, fmt.Errorf("%s: is left out: %w", name, why))
}
