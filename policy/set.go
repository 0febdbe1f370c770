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

// All are what the policies, and then the quotas, have in common.
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

// enabledInOrder is r without rules that are Disabled, in the order in which they are asked.
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

// common is what a policy or quota has in common with others.
func (r *Rule) common() *Rule { return r }

// Set is all rules at one moment, arranged by the namespaces they select. It is immutable.
type Set struct {
	fallback *Policy
	cluster  Rules // in order, without those that are left out
	excluded map[*Rule]error
	// slots number the expressions of cluster's conditions: equal ones have one slot.
	slots map[*Condition]int
	// hasSelectors reports whether a rule of the cluster does not select every namespace.
	hasSelectors bool
	views        map[string]view
	// selections are those of views: most namespaces share one.
	selections map[string]selection
}

// Current holds the Set that is in force. It is only ever replaced as a whole.
type Current struct{ atomic.Pointer[Set] }

// NewCurrent holds a Set.
func NewCurrent(s *Set) *Current {
	var c Current
	c.Store(s)
	return &c
}

// Namespace is what a Set knows of a namespace.
type Namespace struct {
	// Labels are nil for a namespace of which only rules are known yet.
	Labels      labels.Set
	Annotations map[string]string
	// PartialLabels and PartialAnnotations say that the namespace has others, which are not known: to conditions, whether
	// one is there that is not known is unknown.
	PartialLabels, PartialAnnotations bool
	Rules

	// knownLabels are names of labels of which it is known whether the namespace has them, although it has others.
	knownLabels map[string]bool
}

// selection is the rules of the cluster that select a namespace, or may, in order.
type selection struct {
	Rules

	uncertain map[*Rule]bool // those that may
}

// view is the rules that may apply to Events of one namespace, in order.
type view struct {
	selection

	object *NamespaceObject // nil if nothing is known of the namespace
}

// NewSet arranges rules. What no policy governs is governed by fallback. The rules must not be changed afterwards.
//
// The cost of making a Set grows with the namespaces and the cluster's rules; the cost of asking it grows with
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

// WithNamespaces is s with other rules and labels for some namespaces; those with nil are removed.
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
	var key []byte // a sign for each rule of the cluster
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
