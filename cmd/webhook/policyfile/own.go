package policyfile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/policy"
)

// group is a kind in a namespace.
type group struct{ namespace, kind string }

// ownRule is a rule of a namespace, which has made nothing unless it is valid.
type ownRule struct {
	policy.Candidate

	made policy.Rules
}

// addOwn adds a rule of a namespace. The error says that it is too large.
func (r *Rules) addOwn(u *unstructured.Unstructured, made policy.Rules) error {
	one := ownRule{policy.Candidate{Created: u.GetCreationTimestamp().Time, Name: u.GetName(), UID: u.GetUID()}, made}
	match, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "match")
	one.Size = policy.SizeOf(match)
	limits, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "limits")
	list, _ := limits.([]any)
	one.Limits = len(list)
	err := policy.CheckSize(u.GetKind(), one.Size)
	if err != nil {
		one.made, one.Size, one.Limits = policy.Rules{}, 0, 0
	}
	at := group{u.GetNamespace(), u.GetKind()}
	r.own[at] = append(r.own[at], one)
	n := r.Namespaces[at.namespace]
	n.Add(one.made)
	r.Namespaces[at.namespace] = n
	return err
}

// bound leaves out what the bounds of a namespace, or of the cluster's conditions, do not let be in force, as replicas do.
// Rules of files have no time of creation, so that their names order them.
func (r *Rules) bound() {
	leftOut := r.Set().LeftOut()
	for _, name := range slices.Sorted(maps.Keys(leftOut)) {
		r.leaveOut(name, "spec.match.conditions", leftOut[name])
	}
	for name, n := range r.Namespaces {
		n.Rules = policy.Rules{}
		r.Namespaces[name] = n
	}
	for _, at := range slices.SortedFunc(maps.Keys(r.own), func(a, b group) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.kind, b.kind))
	}) {
		all := r.own[at]
		slices.SortFunc(all, func(a, b ownRule) int { return a.Older(&b.Candidate) })
		candidates := make([]policy.Candidate, len(all))
		for i := range all {
			candidates[i] = all[i].Candidate
		}
		n := r.Namespaces[at.namespace]
		for i, why := range policy.Beyond(at.kind, candidates) {
			if why != nil {
				r.leaveOut(fmt.Sprintf("%s %s/%s", at.kind, at.namespace, all[i].Name), "", why)
				continue
			}
			n.Add(all[i].made)
		}
		r.Namespaces[at.namespace] = n
	}
}

// leaveOut says that a rule is not in force, though it may be valid, and why.
func (r *Rules) leaveOut(name, field string, why error) {
	for _, o := range r.Objects {
		if o.Name == name {
			r.Invalid = append(r.Invalid, o.Problem(RuleTooMany, field, "is left out: "+why.Error()))
			return
		}
	}
	r.Invalid = append(r.Invalid, fmt.Errorf("%s: is left out: %w", name, why))
}
