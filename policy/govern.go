package policy

import (
	"cmp"
	"context"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// For is what the Set in force says.
func (c *Current) For(ctx context.Context, namespace string, e *corev1.Event, r *Request) Governing {
	return c.Load().For(ctx, namespace, e, r)
}

// For says what applies to an Event that is written to a namespace; e is nil where nothing is known of its content. The
// first policy that matches governs, in this order: the cluster's of tier Admin, the namespace's own, the cluster's of tier
// Baseline, the fallback. A policy in mode Audit that matches is noted, and the next one asked, so that auditing a policy
// never takes another one out of force. All quotas that match limit, whichever policy governs.
//
// What is unknown is strict. A policy of which it is unknown whether it matches does not govern. A quota of which that is
// unknown limits, and replaces no limit of another: no Event gets past a quota by what cannot be read of it. When ctx ends,
// the remaining conditions are unknown.
//
// It waits for other calls where conditions are evaluated, as no more of them are at a time than there are processors.
func (s *Set) For(ctx context.Context, namespace string, e *corev1.Event, r *Request) Governing {
	v := s.view(namespace)
	q := s.question(ctx, v, namespace, e, r)
	defer q.end()
	for _, p := range v.Policies {
		if q.matches(&p.Rule) != yes {
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
		if is := q.matches(&quota.Rule); is != no {
			q.answer.quotas.add(quota, is == yes)
		}
	}
	return q.answer
}

// view does not change s, even if the namespace is unknown: calls are concurrent.
func (s *Set) view(namespace string) view {
	v, known := s.views[namespace]
	switch {
	case known:
		return v
	case !s.selective:
		return view{selection: selection{Rules: s.cluster}}
	}
	return view{selection: s.selected(&Namespace{}, namespace)}
}

// selected is the rules of the cluster that select a namespace, or may.
func (s *Set) selected(n *Namespace, name string) selection {
	found := selection{unsure: map[*Rule]bool{}}
	out := func(r *Rule) bool {
		is := r.selects(n, name)
		if is == unknown {
			found.unsure[r] = true
		}
		return is == no
	}
	found.Policies = slices.DeleteFunc(slices.Clone(s.cluster.Policies), func(p *Policy) bool { return out(&p.Rule) })
	found.Quotas = slices.DeleteFunc(slices.Clone(s.cluster.Quotas), func(q *Quota) bool { return out(&q.Rule) })
	return found
}

// selects says whether r, which is of the cluster, selects the namespace of a name.
func (r *Rule) selects(n *Namespace, name string) truth {
	if r.Match.Namespaces == nil {
		return yes
	}
	return n.matches(r.Match.Namespaces, name)
}

func (s *Set) question(ctx context.Context, v view, namespace string, e *corev1.Event, r *Request) question {
	return question{ctx: ctx, event: e, request: r, name: namespace, namespace: v.object, unsure: v.unsure, slots: s.slots}
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
	// Errors say of which rules it is unknown whether they match, and why.
	Errors []*EvaluationError

	quotas matching
}

// matching are the quotas that match, or may. It holds a few without an allocation.
type matching struct {
	n    int
	few  [16]match
	more []match // those after few
}

// match is a quota that matches, surely or perhaps.
type match struct {
	*Quota

	surely bool
}

func (m *matching) add(q *Quota, surely bool) {
	if m.n < len(m.few) {
		m.few[m.n] = match{q, surely}
	} else {
		m.more = append(m.more, match{q, surely})
	}
	m.n++
}

func (m *matching) at(i int) match {
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

// Limited reports whether any quota matches, or may.
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
				if l := &limits[i]; (q.own() || !g.replaced(n, l, audited)) && !yield(q.Quota, l) {
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

// replaced reports whether one of the first n quotas, which are the cluster's, surely matches and has a limit of the same
// name.
func (g *Governing) replaced(n int, l *QuotaLimit, audited bool) bool {
	for i := range n {
		before := g.quotas.at(i)
		if before.surely && (before.Mode != Audit || audited) && before.limits(l.Name) {
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

// end gives the turn back.
func (q *question) end() {
	if q.turn != nil {
		<-q.turn
	}
}
