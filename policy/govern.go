package policy

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// For says what applies to an Event that is written to a namespace. Asked in
// this order, the first policy that matches governs: the cluster's of tier
// Admin, the namespace's own, the cluster's of tier Baseline, the fallback. A
// policy in mode Audit that matches is noted, and the next one asked, so that
// auditing a policy never takes another one out of force.
//
// The quotas of all cluster policies that match are the floor. A policy whose
// conditions cost too much on the Event does not govern, but is part of the
// floor: an Event that is made large does not get past it.
//
// Without conditions it neither allocates nor looks at e and r. An end of ctx
// makes the conditions that are left fail.
func (s *Set) For(ctx context.Context, namespace string, e *corev1.Event, r *Request) Governing {
	v := s.view(namespace)
	q := question{
		ctx: ctx, event: e, request: r, selection: v.selection,
		clusterLeft: clusterBudget, ownLeft: ownBudget,
	}
	if !v.conditional {
		q.answer.Floor, q.answer.AuditFloor = v.floor, v.auditFloor
	}
	for _, p := range v.admin {
		if q.ended() {
			break
		}
		q.ask(p)
	}
	for _, p := range v.own {
		if q.answer.Policy != nil {
			break
		}
		q.ask(p)
	}
	q.ownGoverns = q.answer.Policy != nil && q.answer.Policy.Match.Tier == ""
	for _, p := range v.baseline {
		if q.ended() {
			break
		}
		q.ask(p)
	}
	if q.answer.Policy == nil {
		q.answer.Policy = s.fallback
		q.answer.OnStoreFailure = s.fallback.OnStoreFailure
	}
	if q.answer.OnStoreFailure == "" {
		q.answer.OnStoreFailure = FailureLocal
	}
	return q.answer
}

// question is one Event on its way through the policies.
type question struct {
	ctx     context.Context //nolint:containedctx // it lives for one call
	event   *corev1.Event
	request *Request

	*selection

	answer     Governing
	ownGoverns bool
	values     *activation
	// What is left of clusterBudget and ownBudget.
	clusterLeft, ownLeft int64
}

// ended reports whether the cluster policies that were not asked yet have
// nothing to add.
func (q *question) ended() bool {
	if q.answer.Policy == nil || q.conditional {
		return false
	}
	return !q.ownGoverns || !q.failures || q.answer.OnStoreFailure != ""
}

// ask lets p govern if nothing does yet and it matches, and takes from it what
// applies anyway.
func (q *question) ask(p *Policy) {
	floor := q.conditional && len(p.Quotas) > 0 && p.Match.Tier != ""
	failure := q.ownGoverns && q.answer.OnStoreFailure == "" && q.failures && p.Mode != Audit
	if q.answer.Policy != nil && !floor && !failure {
		return
	}
	matches, err := q.matches(p)
	if floor && (matches || errors.Is(err, ErrBudget)) {
		if p.Mode == Audit {
			q.answer.AuditFloor = append(q.answer.AuditFloor, p)
		} else {
			q.answer.Floor = append(q.answer.Floor, p)
		}
	}
	switch {
	case !matches:
	case failure:
		q.answer.OnStoreFailure = p.OnStoreFailure
	case q.answer.Policy != nil:
	case p.Mode != Audit:
		q.answer.Policy = p
		if p.Match.Tier != "" {
			q.answer.OnStoreFailure = p.OnStoreFailure
		}
	case q.answer.Audit == nil:
		q.answer.Audit = p
	}
}

func (q *question) matches(p *Policy) (bool, error) {
	if len(p.Match.Conditions) == 0 {
		return true, nil
	}
	if q.values == nil {
		q.values = &activation{event: q.event, request: q.request}
	}
	left := &q.clusterLeft
	if p.Match.Tier == "" {
		left = &q.ownLeft
	}
	ok, err := p.holds(q.ctx, q.values, left)
	if err == nil {
		return ok, nil
	}
	q.answer.Errors = append(q.answer.Errors, err)
	return false, err
}

// Governing is what applies to one Event.
type Governing struct {
	// Policy governs the Event. It is never nil and never in mode Audit.
	Policy *Policy
	// Audit would govern the Event if its mode were Enforce, or is nil: the
	// first policy in mode Audit that matches before Policy does.
	Audit *Policy
	// Floor are the cluster policies that match: their quotas apply, whichever
	// policy governs.
	Floor []*Policy
	// AuditFloor are those in mode Audit, whose quotas are counted only.
	AuditFloor []*Policy
	// OnStoreFailure is what becomes of the Event while the store is unavailable. A
	// tenant has no say in it: where a namespace's own policy governs, it is
	// that of the first cluster policy of tier Baseline that matches.
	OnStoreFailure OnStoreFailure
	// Errors are about conditions that could not be evaluated.
	Errors []*EvaluationError
}

// Quotas are all quotas that apply, each with the policy it is of: those of
// the floor first.
func (g *Governing) Quotas() iter.Seq2[*Policy, *Quota] { return quotas(g.Floor, g.Policy) }

// AuditQuotas are the quotas that would apply beside Quotas if no policy were
// in mode Audit.
func (g *Governing) AuditQuotas() iter.Seq2[*Policy, *Quota] { return quotas(g.AuditFloor, g.Audit) }

func quotas(floor []*Policy, governing *Policy) iter.Seq2[*Policy, *Quota] {
	return func(yield func(*Policy, *Quota) bool) {
		for _, p := range floor {
			for i := range p.Quotas {
				if !yield(p, &p.Quotas[i]) {
					return
				}
			}
		}
		if governing == nil || governing.Match.Tier != "" {
			return // a cluster policy with quotas is part of the floor
		}
		for i := range governing.Quotas {
			if !yield(governing, &governing.Quotas[i]) {
				return
			}
		}
	}
}

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

// Current holds the Set that is in force. It is only ever replaced as a whole.
type Current struct{ atomic.Pointer[Set] }

// For is what the Set in force says.
func (c *Current) For(ctx context.Context, namespace string, e *corev1.Event, r *Request) Governing {
	return c.Load().For(ctx, namespace, e, r)
}

// InForce holds a Set.
func InForce(s *Set) *Current {
	var c Current
	c.Store(s)
	return &c
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
// are removed.
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
