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

// For says what applies to an Event that is written to a namespace. Asked in this order, the first policy that
// matches governs: the cluster's of tier Admin, the namespace's own, the cluster's of tier Baseline, the
// fallback. A policy in mode Audit that matches is noted, and the next one asked, so that auditing a policy
// never takes another one out of force. All quotas that match limit, whichever policy governs.
//
// A rule whose conditions cost too much on the Event does not govern, but it limits: an Event that is made
// large gets past no quota. Without conditions nothing is allocated. An end of ctx makes the conditions that
// are left fail.
func (s *Set) For(ctx context.Context, namespace string, e *corev1.Event, r *Request) Governing {
	v := s.view(namespace)
	q := question{ctx: ctx, event: e, request: r, clusterLeft: clusterBudget, ownLeft: ownBudget}
	for _, policies := range [][]*Policy{v.admin, v.own.Policies, v.baseline} {
		for _, p := range policies {
			if q.answer.Policy == nil {
				q.ask(p)
			}
		}
	}
	if q.answer.Policy == nil {
		q.answer.Policy = s.fallback
	}
	for _, quotas := range [][]*Quota{v.quotas, v.own.Quotas} {
		for _, quota := range quotas {
			if matches, err := q.matches(&quota.Rule); matches || errors.Is(err, ErrBudget) {
				q.answer.quotas.add(quota)
			}
		}
	}
	return q.answer
}

// question is one Event on its way through the rules.
type question struct {
	ctx     context.Context //nolint:containedctx // it lives for one call
	event   *corev1.Event
	request *Request

	answer Governing
	values *activation
	// What is left of clusterBudget and ownBudget.
	clusterLeft, ownLeft int64
}

// ask lets p govern if it matches.
func (q *question) ask(p *Policy) {
	matches, _ := q.matches(&p.Rule)
	switch {
	case !matches:
	case p.Mode != Audit:
		q.answer.Policy = p
	case q.answer.Audit == nil:
		q.answer.Audit = p
	}
}

func (q *question) matches(r *Rule) (bool, error) {
	m := &r.Match
	if !fits(m.Types, q.event.Type) || !fits(m.Reasons, q.event.Reason) || !fits(m.Kinds, q.event.InvolvedObject.Kind) ||
		!fits(m.Controllers, Controller(q.event)) {
		return false, nil
	}
	if len(m.Conditions) == 0 {
		return true, nil
	}
	if q.values == nil {
		q.values = &activation{event: q.event, request: q.request}
	}
	left := &q.clusterLeft
	if r.Identity.Namespace != "" {
		left = &q.ownLeft
	}
	ok, err := r.holds(q.ctx, q.values, left)
	if err == nil {
		return ok, nil
	}
	q.answer.Errors = append(q.answer.Errors, err)
	return false, err
}

func fits(allowed []string, value string) bool {
	return len(allowed) == 0 || slices.Contains(allowed, value)
}

// Governing is what applies to one Event.
type Governing struct {
	// Policy governs the Event. It is never nil and never in mode Audit.
	Policy *Policy
	// Audit would govern the Event if its mode were Enforce, or is nil: the first policy in mode Audit that
	// matches before Policy does.
	Audit *Policy
	// Errors are about conditions that could not be evaluated.
	Errors []*EvaluationError

	quotas matching
}

// matching are quotas. A few of them cost no allocation.
type matching struct {
	few  [16]*Quota
	n    int
	more []*Quota
}

func (m *matching) add(q *Quota) {
	if m.n < len(m.few) {
		m.few[m.n] = q
		m.n++
		return
	}
	m.more = append(m.more, q)
}

func (m *matching) all(yield func(*Quota) bool) {
	for _, q := range m.few[:m.n] {
		if !yield(q) {
			return
		}
	}
	for _, q := range m.more {
		if !yield(q) {
			return
		}
	}
}

// Limits are the limits that apply under Policy, each with the quota it is of: those of the cluster first.
func (g *Governing) Limits() iter.Seq2[*Quota, *QuotaLimit] { return g.limits(g.Policy, false) }

// AuditLimits are those that would apply if no rule were in mode Audit.
func (g *Governing) AuditLimits() iter.Seq2[*Quota, *QuotaLimit] {
	return g.limits(cmp.Or(g.Audit, g.Policy), true)
}

// Limited reports whether any quota matches.
func (g *Governing) Limited() bool { return g.quotas.n > 0 }

// Rule is the policy that governs or is audited, or the quota that matches, of a name; nil for none.
func (g *Governing) Rule(name string) *Rule {
	for _, p := range []*Policy{g.Policy, g.Audit} {
		if p != nil && p.Name == name {
			return &p.Rule
		}
	}
	for q := range g.quotas.all {
		if q.Name == name {
			return &q.Rule
		}
	}
	return nil
}

// Audited reports whether a quota in mode Audit matches.
func (g *Governing) Audited() bool {
	for q := range g.quotas.all {
		if q.Mode == Audit {
			return true
		}
	}
	return false
}

func (g *Governing) limits(p *Policy, audited bool) iter.Seq2[*Quota, *QuotaLimit] {
	return func(yield func(*Quota, *QuotaLimit) bool) {
		for q := range g.quotas.all {
			own := q.Identity.Namespace != ""
			if q.Mode == Audit && !audited || p.Action == Exempt && (own || p.Identity.Namespace == "") {
				continue
			}
			for i := range q.Limits {
				if l := &q.Limits[i]; (own || !g.replaced(q, l, audited)) && !yield(q, l) {
					return
				}
			}
		}
	}
}

// replaced reports whether a quota of the cluster that goes before q has a limit of the same name.
func (g *Governing) replaced(q *Quota, l *QuotaLimit, audited bool) bool {
	for before := range g.quotas.all {
		if before == q {
			return false
		}
		if before.Mode == Audit && !audited {
			continue
		}
		for i := range before.Limits {
			if before.Limits[i].Name == l.Name {
				return true
			}
		}
	}
	return false
}

// Rules are the policies and quotas of one namespace, or of the cluster, in any order.
type Rules struct {
	Policies []*Policy
	Quotas   []*Quota
}

// Set is all rules at one moment, arranged by the namespaces they select. It is never changed, and safe for
// concurrent use.
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
	// Labels are nil for a namespace of which only rules are known yet.
	Labels labels.Set
	Rules
}

// view is what may apply to the Events of one namespace.
type view struct {
	*selection

	own Rules
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
	return view{selection: s.selectionOf(name, n.Labels), own: n.Rules.inOrder()}
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

// selectionOf is what selects a namespace. Every namespace has its name as a label, so that one which is not
// known yet can be selected by it.
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

// view does not change s, though a namespace may be unknown: it may be asked by many at a time.
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

// inOrder is r in the order in which it is asked.
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
