package policy

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Set is all policies at one moment, arranged by the namespaces they select. It
// is never changed, and safe for concurrent use.
type Set struct {
	fallback *Policy
	cluster  []*Policy // in order, Admin before Baseline, none that is Off
	views    map[string]view
	// selections are those of views: most namespaces share one.
	selections map[string]*selection
	// everywhere is what selects every namespace; nil if that differs.
	everywhere *selection
}

// Namespace is what a Set knows of a namespace.
type Namespace struct {
	// Labels are nil for a namespace of which only policies are known yet.
	Labels labels.Set
	// Policies are those of the namespace, in any order.
	Policies []*Policy
}

// view is what may govern the Events of one namespace.
type view struct {
	*selection

	own []*Policy
}

// NewSet arranges policies. What no other policy governs is governed by
// fallback. The policies must not be changed afterwards.
//
// The cost of making a Set grows with the namespaces and the cluster policies;
// the cost of asking it grows with the policies that select the namespace.
func NewSet(fallback *Policy, cluster []*Policy, namespaces map[string]Namespace) *Set {
	s := &Set{
		fallback:   fallback,
		cluster:    inOrder(cluster),
		views:      make(map[string]view, len(namespaces)),
		selections: map[string]*selection{},
	}
	if !slices.ContainsFunc(s.cluster, func(p *Policy) bool { return p.Match.Namespaces != nil }) {
		s.everywhere = s.selectionOf("", nil)
	}
	for name, n := range namespaces {
		s.views[name] = s.newView(name, n)
	}
	return s
}

// With is s with other policies and labels for some namespaces; those with nil
// are gone.
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
	return view{selection: s.selectionOf(name, n.Labels), own: inOrder(n.Policies)}
}

// selectionOf is what selects a namespace. Every namespace has its name as a
// label, so that one which is not known yet can be selected by it.
func (s *Set) selectionOf(name string, ls labels.Set) *selection {
	if ls == nil {
		ls = labels.Set{corev1.LabelMetadataName: name}
	}
	chosen := make([]byte, len(s.cluster))
	for i, p := range s.cluster {
		if p.Match.Namespaces == nil || p.Match.Namespaces.Matches(ls) {
			chosen[i] = 1
		}
	}
	known, ok := s.selections[string(chosen)]
	if !ok {
		known = newSelection(s.cluster, chosen)
		s.selections[string(chosen)] = known
	}
	return known
}

// view does not change s, though a namespace may be unknown: it may be asked
// by many at a time.
func (s *Set) view(namespace string) view {
	if v, ok := s.views[namespace]; ok {
		return v
	}
	if s.everywhere != nil {
		return view{selection: s.everywhere}
	}
	unknown := Set{cluster: s.cluster, selections: map[string]*selection{}}
	return unknown.newView(namespace, Namespace{})
}

// inOrder is policies in the order in which they are asked.
func inOrder(policies []*Policy) []*Policy {
	kept := make([]*Policy, 0, len(policies))
	for _, p := range policies {
		if p.Mode != Off {
			kept = append(kept, p)
		}
	}
	slices.SortFunc(kept, func(a, b *Policy) int {
		return cmp.Or(
			cmp.Compare(a.Match.Tier, b.Match.Tier), // Admin, Baseline
			cmp.Compare(b.Match.Priority, a.Match.Priority),
			cmp.Compare(a.Identity.Name, b.Identity.Name))
	})
	return kept
}

// selection is the cluster policies that select a namespace.
type selection struct {
	admin, baseline []*Policy
	// floor are those of them with quotas, and auditFloor those whose quotas
	// are counted only.
	floor, auditFloor []*Policy
	// conditional: which of them is a floor depends on the Event.
	conditional bool
	// failures: some of baseline has a choice for a store failure.
	failures bool
}

func newSelection(cluster []*Policy, chosen []byte) *selection {
	s := &selection{}
	for i, p := range cluster {
		if chosen[i] == 0 {
			continue
		}
		if p.Match.Tier == TierAdmin {
			s.admin = append(s.admin, p)
		} else {
			s.baseline = append(s.baseline, p)
			s.failures = s.failures || p.OnStoreFailure != FailureLocal
		}
		if len(p.Quotas) == 0 {
			continue
		}
		s.conditional = s.conditional || len(p.Match.Conditions) > 0
		if p.Mode == Audit {
			s.auditFloor = append(s.auditFloor, p)
		} else {
			s.floor = append(s.floor, p)
		}
	}
	return s
}
