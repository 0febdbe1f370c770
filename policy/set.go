package policy

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Rules are the policies and quotas of one namespace, or of the cluster, in any order.
type Rules struct {
	Policies []*Policy
	Quotas   []*Quota
}

// Set is all rules at one moment, arranged by the namespaces they select. It is immutable.
type Set struct {
	fallback *Policy
	cluster  Rules // in order, none that is Disabled
	views    map[string]view
	// selections are those of views: most namespaces share one.
	selections map[string]*selection
	// everywhere is what selects every namespace; nil if that differs.
	everywhere *selection
}

// Current holds the Set that is in force. It is only ever replaced as a whole.
type Current struct{ atomic.Pointer[Set] }

// InForce holds a Set.
func InForce(s *Set) *Current {
	var c Current
	c.Store(s)
	return &c
}

// Namespace is what a Set knows of a namespace.
type Namespace struct {
	// Labels are nil for a namespace of which only rules are known yet.
	Labels      labels.Set
	Annotations map[string]string
	Rules
	// Pending is nil where Rules are all that there are.
	Pending Pending
}

// view is the rules that may apply to Events of one namespace.
type view struct {
	*selection

	object  *NamespaceObject
	own     Rules
	pending Pending
}

// selection is the rules of the cluster that select a namespace.
type selection struct {
	admin, baseline []*Policy
	quotas          []*Quota
}

// NewSet arranges rules. What no policy governs is governed by fallback. The rules must not be changed
// afterwards.
//
// The cost of making a Set grows with the namespaces and the cluster's rules; the cost of asking it grows with
// the rules that select the namespace.
func NewSet(fallback *Policy, cluster Rules, namespaces map[string]Namespace) *Set {
	s := &Set{
		fallback:   fallback,
		cluster:    cluster.inOrder(),
		views:      make(map[string]view, len(namespaces)),
		selections: map[string]*selection{},
	}
	if len(s.selectors()) == 0 {
		s.everywhere = s.selectionOf("", nil)
	}
	for name, n := range namespaces {
		s.views[name] = s.newView(name, n)
	}
	return s
}

// With is s with other rules and labels for some namespaces; those with nil are removed.
func (s *Set) With(changed map[string]*Namespace) *Set {
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
	return view{
		selection: s.selectionOf(name, n.Labels), own: n.inOrder(), pending: n.Pending,
		object: &NamespaceObject{NamespaceMetadata{name, n.Labels, n.Annotations}},
	}
}

// selectors are those of the cluster's rules that do not select every namespace.
func (s *Set) selectors() (all []labels.Selector) {
	for _, p := range s.cluster.Policies {
		all = append(all, p.Match.Namespaces)
	}
	for _, q := range s.cluster.Quotas {
		all = append(all, q.Match.Namespaces)
	}
	return slices.DeleteFunc(all, func(l labels.Selector) bool { return l == nil })
}

// selectionOf is the rules that select a namespace. Every namespace has its name as a label, so unknown ones
// can be selected by it.
func (s *Set) selectionOf(name string, ls labels.Set) *selection {
	if ls == nil {
		ls = labels.Set{corev1.LabelMetadataName: name}
	}
	selects := func(m *Match) bool { return m.Namespaces == nil || m.Namespaces.Matches(ls) }
	chosen := make([]byte, 0, len(s.cluster.Policies)+len(s.cluster.Quotas))
	note := func(chooses bool) bool {
		chosen = append(chosen, map[bool]byte{true: '+', false: '-'}[chooses])
		return chooses
	}
	var found selection
	for _, p := range s.cluster.Policies {
		switch {
		case !note(selects(&p.Match)):
		case p.Tier == TierAdmin:
			found.admin = append(found.admin, p)
		default:
			found.baseline = append(found.baseline, p)
		}
	}
	for _, q := range s.cluster.Quotas {
		if note(selects(&q.Match)) {
			found.quotas = append(found.quotas, q)
		}
	}
	if known, ok := s.selections[string(chosen)]; ok {
		return known
	}
	s.selections[string(chosen)] = &found
	return &found
}

// inOrder is r sorted by precedence.
func (r Rules) inOrder() Rules {
	return Rules{
		Policies: inOrder(r.Policies, func(p *Policy) *Rule { return &p.Rule }),
		Quotas:   inOrder(r.Quotas, func(q *Quota) *Rule { return &q.Rule }),
	}
}

func inOrder[T any](all []*T, rule func(*T) *Rule) []*T {
	kept := make([]*T, 0, len(all))
	for _, one := range all {
		if rule(one).Mode != Disabled {
			kept = append(kept, one)
		}
	}
	slices.SortFunc(kept, func(a, b *T) int {
		return cmp.Or(
			cmp.Compare(rule(a).Precedence, rule(b).Precedence),
			cmp.Compare(rule(a).Identity.Name, rule(b).Identity.Name))
	})
	return kept
}
