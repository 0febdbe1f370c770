package policy

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// For is what the Set in force says.
func (c *Current) For(ctx context.Context, namespace string, e *corev1.Event, r *Request) Governing {
	return c.Load().For(ctx, namespace, e, r)
}

// For says what applies to an Event that is written to a namespace. The first policy that matches governs, in
// this order: the cluster's of tier Admin, the namespace's own, the cluster's of tier Baseline, the fallback.
// A policy in mode Audit that matches is noted, and the next one asked, so that auditing a policy never takes
// another one out of force. All quotas that match limit, whichever policy governs.
//
// A rule whose conditions cost too much on the Event does not govern, but it limits: a large Event gets past
// no quota. When ctx ends, the remaining conditions fail.
func (s *Set) For(ctx context.Context, namespace string, e *corev1.Event, r *Request) Governing {
	v := s.view(namespace)
	q := v.question(ctx, namespace, e, r)
	for _, p := range v.Policies {
		if matches, _ := q.matches(&p.Rule); !matches {
			continue
		}
		if p.Mode != Audit {
			q.answer.Policy = p
			break
		}
		q.answer.Audit = cmp.Or(q.answer.Audit, p)
	}
	q.answer.Policy = cmp.Or(q.answer.Policy, s.fallback)
	for _, quota := range v.Quotas {
		if matches, err := q.matches(&quota.Rule); matches || errors.Is(err, ErrBudget) {
			q.answer.quotas.add(quota)
		}
	}
	return q.answer
}

// Matches reports whether an Event matches a rule, whatever its namespaces and mode. The error is of a condition.
func (s *Set) Matches(ctx context.Context, rule *Rule, namespace string, e *corev1.Event, r *Request) (bool, error) {
	q := s.view(namespace).question(ctx, namespace, e, r)
	return q.matches(rule)
}

// view does not change s, even if the namespace is unknown: calls are concurrent.
func (s *Set) view(namespace string) view {
	v, known := s.views[namespace]
	switch {
	case known:
		return v
	case !s.selective:
		return view{Rules: s.cluster}
	}
	return view{Rules: s.selected(labelsOf(namespace, nil))}
}

// labelsOf are the labels of a namespace. Each has its name as a label, so unknown ones can be selected by it.
func labelsOf(namespace string, known labels.Set) labels.Set {
	if known == nil {
		return labels.Set{corev1.LabelMetadataName: namespace}
	}
	return known
}

// selected is the rules of the cluster that select a namespace with these labels.
func (s *Set) selected(ls labels.Set) Rules {
	return Rules{
		Policies: slices.DeleteFunc(slices.Clone(s.cluster.Policies), func(p *Policy) bool { return !p.selects(ls) }),
		Quotas:   slices.DeleteFunc(slices.Clone(s.cluster.Quotas), func(q *Quota) bool { return !q.selects(ls) }),
	}
}

func (r *Rule) selects(ls labels.Set) bool {
	return r.Match.Namespaces == nil || r.Match.Namespaces.Matches(ls)
}

// question is one Event and what the rules say of it so far.
type question struct {
	ctx     context.Context //nolint:containedctx // it lives for one call
	event   *corev1.Event
	request *Request
	// namespace is what the Set knows of the one with that name, or nil.
	name      string
	namespace *NamespaceObject

	answer Governing
	values *activation

	cluster, own budget
}

func (v view) question(ctx context.Context, namespace string, e *corev1.Event, r *Request) question {
	return question{
		ctx: ctx, event: e, request: r, name: namespace, namespace: v.object,
		cluster: budget{left: clusterBudget}, own: budget{left: ownBudget},
	}
}

func (q *question) matches(r *Rule) (bool, error) {
	m, e := &r.Match, q.event
	if !fits(m.Types, Type(e)) || !fits(m.Reasons, e.Reason) || !fits(m.Controllers, controller(e)) || !fits(m.Kinds, e.InvolvedObject.Kind) {
		return false, nil
	}
	if len(m.Conditions) == 0 {
		return true, nil
	}
	if q.values == nil {
		if q.namespace == nil {
			q.namespace = &NamespaceObject{NamespaceMetadata{Name: q.name}}
		}
		q.values = &activation{event: q.event, request: q.request, namespace: q.namespace}
	}
	pays := &q.cluster
	if r.own() {
		pays = &q.own
	}
	ok, err := r.holds(q.ctx, q.values, pays)
	if err == nil {
		return ok, nil
	}
	q.answer.Errors = append(q.answer.Errors, err)
	return false, err
}

// own reports whether r is of a namespace.
func (r *Rule) own() bool { return r.Identity.Namespace != "" }

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

// matching are the quotas that match. It holds a few without an allocation.
type matching struct {
	n    int
	few  [16]*Quota
	more []*Quota // those after few
}

func (m *matching) add(q *Quota) {
	if m.n < len(m.few) {
		m.few[m.n] = q
	} else {
		m.more = append(m.more, q)
	}
	m.n++
}

func (m *matching) at(i int) *Quota {
	if i < len(m.few) {
		return m.few[i]
	}
	return m.more[i-len(m.few)]
}

// Limits are the limits that apply under Policy, each with the quota it is of: those of the cluster first, and of the
// namespace's the first MaxOwnLimits in the order of their quotas' names.
func (g *Governing) Limits() iter.Seq2[*Quota, *QuotaLimit] { return g.limits(g.Policy, false) }

// AuditLimits are those that would apply if every rule in mode Audit were in mode Enforce.
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
	for i := range g.quotas.n {
		if q := g.quotas.at(i); q.Name == name {
			return &q.Rule
		}
	}
	return nil
}

// Audited reports whether a quota in mode Audit matches.
func (g *Governing) Audited() bool {
	for i := range g.quotas.n {
		if g.quotas.at(i).Mode == Audit {
			return true
		}
	}
	return false
}

func (g *Governing) limits(p *Policy, audited bool) iter.Seq2[*Quota, *QuotaLimit] {
	return func(yield func(*Quota, *QuotaLimit) bool) {
		own := 0
		for n := range g.quotas.n {
			q := g.quotas.at(n)
			if !q.applies(p, audited) {
				continue
			}
			limits := q.Limits
			if q.own() { // a namespace's quotas come last
				limits = limits[:min(len(limits), MaxOwnLimits-own)]
				own += len(limits)
			}
			for i := range limits {
				if l := &limits[i]; (q.own() || !g.replaced(n, l, audited)) && !yield(q, l) {
					return
				}
			}
		}
	}
}

// applies reports whether q, which matches, applies under p.
func (q *Quota) applies(p *Policy, audited bool) bool {
	return (q.Mode != Audit || audited) && (p.Action != Exempt || !q.own() && p.own())
}

// replaced reports whether one of the first n quotas, which are the cluster's, has a limit of the same name.
func (g *Governing) replaced(n int, l *QuotaLimit, audited bool) bool {
	for i := range n {
		before := g.quotas.at(i)
		if (before.Mode != Audit || audited) && before.limits(l.Name) {
			return true
		}
	}
	return false
}

// Type is that of an Event as rules see it. Events may have any or none: whatever is not Warning is Normal.
func Type(e *corev1.Event) string {
	if e.Type == corev1.EventTypeWarning {
		return e.Type
	}
	return corev1.EventTypeNormal
}
