package policy

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
)

// Rules are the policies and quotas of one namespace, or of the cluster, in any order.
type Rules struct {
	Policies []*Policy
	Quotas   []*Quota
}

// Add adds others to r.
func (r *Rules) Add(others Rules) {
	r.Policies = append(r.Policies, others.Policies...)
	r.Quotas = append(r.Quotas, others.Quotas...)
}

// All iterates over the Rule of each policy, and then of each quota.
func (r Rules) All() iter.Seq[*Rule] {
	return func(yield func(*Rule) bool) {
		for _, p := range r.Policies {
			if !yield(&p.Rule) {
				return
			}
		}
		for _, q := range r.Quotas {
			if !yield(&q.Rule) {
				return
			}
		}
	}
}

// enabledInOrder returns r without Disabled rules, in the order in which they are resolved.
func (r Rules) enabledInOrder() Rules {
	ordered := Rules{Policies: enabledInOrder(r.Policies), Quotas: enabledInOrder(r.Quotas)}
	slices.SortStableFunc(ordered.Policies, func(a, b *Policy) int { return cmp.Compare(a.Tier, b.Tier) }) // Admin, Baseline
	return ordered
}

func enabledInOrder[T interface{ common() *Rule }](all []T) []T {
	kept := slices.DeleteFunc(slices.Clone(all), func(one T) bool { return one.common().Mode == Disabled })
	slices.SortFunc(kept, func(a, b T) int {
		x, y := a.common(), b.common()
		return cmp.Or(cmp.Compare(x.Precedence, y.Precedence), cmp.Compare(x.Identity.Name, y.Identity.Name))
	})
	return kept
}

// common returns the Rule of a policy or quota.
func (r *Rule) common() *Rule { return r }

// Set has all rules at one moment, by the namespaces that they select. It is immutable.
type Set struct {
	fallback *Policy
	cluster  Rules // in order, without excluded ones
	excluded map[*Rule]error
	// slots numbers the expressions of the cluster's conditions. Equal expressions share a slot.
	slots map[*Condition]int
	// hasSelectors reports whether any rule of the cluster does not select every namespace.
	hasSelectors bool
	views        map[string]view
	// selections are the selections of the views. Most namespaces share one.
	selections map[string]selection
}

// Current holds the current Set, which is only replaced as a whole.
type Current struct{ atomic.Pointer[Set] }

// NewCurrent returns a Current with a Set.
func NewCurrent(s *Set) *Current {
	var c Current
	c.Store(s)
	return &c
}

// Namespace has the rules and properties of a namespace in a Set.
type Namespace struct {
	// Labels is nil while only the rules of a namespace are known.
	Labels      labels.Set
	Annotations map[string]string
	// PartialLabels and PartialAnnotations report that the namespace has more of them. In conditions, the presence of
	// the others is unknown.
	PartialLabels, PartialAnnotations bool
	Rules

	// knownLabels has the names of labels whose presence is known although PartialLabels is true.
	knownLabels map[string]bool
}

// selection has the rules of the cluster that select a namespace, or may select it, in order.
type selection struct {
	Rules

	uncertain map[*Rule]bool // rules that may select it
}

// view has the rules that may apply to Events of one namespace, in order.
type view struct {
	selection

	object *NamespaceObject // nil if the namespace is unknown
}

// NewSet returns a Set of rules. The fallback governs Events that no policy governs. The caller must not change the rules afterwards.
//
// The cost of making a Set grows with the namespaces and the cluster's rules. The cost of Resolve grows with
// the rules that select the namespace.
func NewSet(fallback *Policy, cluster Rules, namespaces map[string]Namespace) *Set {
	s := &Set{
		fallback:   fallback,
		views:      make(map[string]view, len(namespaces)),
		selections: map[string]selection{},
	}
	s.cluster, s.excluded, s.slots = cluster.enabledInOrder().withinBudget()
	for r := range s.cluster.All() {
		s.hasSelectors = s.hasSelectors || r.Match.Namespaces != nil
	}
	for name, n := range namespaces {
		s.views[name] = s.newView(name, n)
	}
	return s
}

// WithNamespaces returns a copy of s in which some namespaces are replaced, or removed if they are nil.
func (s *Set) WithNamespaces(changed map[string]*Namespace) *Set {
	next := *s
	next.views, next.selections = maps.Clone(s.views), maps.Clone(s.selections)
	for name, n := range changed {
		if n == nil {
			delete(next.views, name)
			continue
		}
		next.views[name] = next.newView(name, *n)
	}
	return &next
}

func (s *Set) newView(name string, n Namespace) view {
	var key []byte // one byte for each rule of the cluster
	for r := range s.cluster.All() {
		key = append(key, byte(r.selects(&n, name)))
	}
	shared, ok := s.selections[string(key)]
	if !ok {
		shared = s.selected(&n, name)
		s.selections[string(key)] = shared
	}
	v := view{selection: shared, object: &NamespaceObject{name, n.Labels, n.Annotations, n.PartialLabels, n.PartialAnnotations}}
	if own := n.enabledInOrder(); len(own.Policies)+len(own.Quotas) > 0 {
		baseline, _ := slices.BinarySearchFunc(shared.Policies, TierBaseline, func(p *Policy, t Tier) int { return cmp.Compare(p.Tier, t) })
		v.Policies = slices.Concat(shared.Policies[:baseline], own.Policies, shared.Policies[baseline:])
		v.Quotas = slices.Concat(shared.Quotas, own.Quotas)
	}
	return v
}
