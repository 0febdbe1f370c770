package policy

import (
	"cmp"
	"context"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Resolve resolves against the current Set.
func (c *Current) Resolve(ctx context.Context, namespace string, e *corev1.Event, r *Request) Resolution {
	return c.Load().Resolve(ctx, namespace, e, r)
}

// Resolve returns the policy and quotas for an Event that is written to a namespace; e is nil if its content is unknown. The
// first matching policy governs, in this order: the cluster's policies of tier Admin, the namespace's own policies, the cluster's
// policies of tier Baseline, the fallback. A matching policy in mode Audit is recorded, and the search continues, so that auditing
// a policy never disables another one. All matching quotas limit, whichever policy governs.
//
// Unknown matches are treated strictly. A policy that may match does not govern. A quota that may match limits, and replaces no
// limit of another quota. So no Event evades a quota because it cannot be read. After ctx ends, the remaining conditions
// are unknown.
//
// Only as many calls as there are processors evaluate conditions at the same time; others wait.
func (s *Set) Resolve(ctx context.Context, namespace string, e *corev1.Event, r *Request) Resolution {
	v := s.view(namespace)
	q := s.newEvaluation(ctx, v, namespace, e, r)
	defer q.release()
	for _, p := range v.Policies {
		if q.matches(&p.Rule) != yes {
			continue
		}
		if p.Mode != Audit {
			q.resolution.Policy = p
			break
		}
		q.resolution.AuditPolicy = cmp.Or(q.resolution.AuditPolicy, p)
	}
	q.resolution.Policy = cmp.Or(q.resolution.Policy, s.fallback)
	for _, quota := range v.Quotas {
		if is := q.matches(&quota.Rule); is != no {
			q.resolution.quotas.add(quota, is == yes)
		}
	}
	return q.resolution
}

// view returns the view of a namespace. It does not change s, even if the namespace is unknown, as calls are concurrent.
func (s *Set) view(namespace string) view {
	v, known := s.views[namespace]
	switch {
	case known:
		return v
	case !s.hasSelectors:
		return view{selection: selection{Rules: s.cluster}}
	}
	return view{selection: s.selected(&Namespace{}, namespace)}
}

// selected returns the rules of the cluster that select a namespace, or may select it.
func (s *Set) selected(n *Namespace, name string) selection {
	found := selection{uncertain: map[*Rule]bool{}}
	out := func(r *Rule) bool {
		is := r.selects(n, name)
		if is == unknown {
			found.uncertain[r] = true
		}
		return is == no
	}
	found.Policies = slices.DeleteFunc(slices.Clone(s.cluster.Policies), func(p *Policy) bool { return out(&p.Rule) })
	found.Quotas = slices.DeleteFunc(slices.Clone(s.cluster.Quotas), func(q *Quota) bool { return out(&q.Rule) })
	return found
}

// selects tells whether r, a rule of the cluster, selects a namespace.
func (r *Rule) selects(n *Namespace, name string) truth {
	if r.Match.Namespaces == nil {
		return yes
	}
	return n.matches(r.Match.Namespaces, name)
}

func (s *Set) newEvaluation(ctx context.Context, v view, namespace string, e *corev1.Event, r *Request) evaluation {
	return evaluation{ctx: ctx, event: e, request: r, name: namespace, namespace: v.object, uncertain: v.uncertain, slots: s.slots}
}

// namespaced reports whether r belongs to a namespace.
func (r *Rule) namespaced() bool { return r.Identity.Namespace != "" }

func allows(allowed []string, value string) bool {
	return len(allowed) == 0 || slices.Contains(allowed, value)
}

// Resolution has the policy and quotas for one Event.
type Resolution struct {
	// Policy governs the Event. It is never nil and never in mode Audit.
	Policy *Policy
	// AuditPolicy would govern the Event if its mode were Enforce. It is the first matching policy in mode Audit
	// before Policy, or nil.
	AuditPolicy *Policy
	// Errors has the rules that may match or not, and why that is unknown.
	Errors []*EvaluationError

	quotas matchedQuotas
}

// matchedQuotas has the quotas that match, or may match. A few fit without an allocation.
type matchedQuotas struct {
	n        int
	inline   [16]matchedQuota
	overflow []matchedQuota // the rest
}

// matchedQuota is a quota that matches, or may match.
type matchedQuota struct {
	*Quota

	certain bool
}

func (m *matchedQuotas) add(q *Quota, surely bool) {
	if m.n < len(m.inline) {
		m.inline[m.n] = matchedQuota{q, surely}
	} else {
		m.overflow = append(m.overflow, matchedQuota{q, surely})
	}
	m.n++
}

func (m *matchedQuotas) at(i int) matchedQuota {
	if i < len(m.inline) {
		return m.inline[i]
	}
	return m.overflow[i-len(m.inline)]
}

// Limits returns the limits that apply under Policy, each with its quota. The cluster's come first, then the first
// MaxLimitsPerEvent of the namespace in the order of their quotas' names.
func (g *Resolution) Limits() iter.Seq2[*Quota, *QuotaLimit] { return g.limits(g.Policy, false) }

// AuditLimits returns the limits that would apply if every rule in mode Audit were in mode Enforce.
func (g *Resolution) AuditLimits() iter.Seq2[*Quota, *QuotaLimit] {
	return g.limits(cmp.Or(g.AuditPolicy, g.Policy), true)
}

// HasQuotas reports whether any quota matches, or may match.
func (g *Resolution) HasQuotas() bool { return g.quotas.n > 0 }

// Limit returns the limit of a quota by their names, or nil if it does not apply.
func (g *Resolution) Limit(quota, limit string) (*Quota, *QuotaLimit) {
	for q, l := range g.Limits() {
		if q.Name == quota && l.Name == limit {
			return q, l
		}
	}
	return nil, nil
}

// Bounded reports whether rules and namespaces bound the number of buckets. Types do not matter for that, as there are two; clients
// choose any number of the other parts.
func (b *Bucket) Bounded() bool {
	return !slices.ContainsFunc(b.Per, func(part KeyPart) bool { return part != KeyNamespace && part != KeyType })
}

// SeparatesNamespaces reports whether only the Events of one namespace use each bucket of a limit of q.
func (q *Quota) SeparatesNamespaces(l *QuotaLimit) bool {
	return q.namespaced() || slices.Contains(l.Per, KeyNamespace)
}

// Rule returns the rule of that name among Policy, AuditPolicy and the matching quotas, or nil.
func (g *Resolution) Rule(name string) *Rule {
	for _, p := range []*Policy{g.Policy, g.AuditPolicy} {
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

// HasAuditQuotas reports whether a quota in mode Audit matches.
func (g *Resolution) HasAuditQuotas() bool {
	for i := range g.quotas.n {
		if g.quotas.at(i).Mode == Audit {
			return true
		}
	}
	return false
}

func (g *Resolution) limits(p *Policy, audited bool) iter.Seq2[*Quota, *QuotaLimit] {
	return func(yield func(*Quota, *QuotaLimit) bool) {
		own := 0
		for n := range g.quotas.n {
			q := g.quotas.at(n)
			if !q.applies(p, audited) {
				continue
			}
			limits := q.Limits
			if q.namespaced() { // a namespace's quotas come last
				limits = limits[:min(len(limits), MaxLimitsPerEvent-own)]
				own += len(limits)
			}
			for i := range limits {
				if l := &limits[i]; (q.namespaced() || !g.overridden(n, l, audited)) && !yield(q.Quota, l) {
					return
				}
			}
		}
	}
}

// applies reports whether the matching quota q applies under p.
func (q *Quota) applies(p *Policy, audited bool) bool {
	return (q.Mode != Audit || audited) && (p.Action != Exempt || !q.namespaced() && p.namespaced())
}

// overridden reports whether one of the first n quotas, which are the cluster's, certainly matches and has a limit of the same
// name.
func (g *Resolution) overridden(n int, l *QuotaLimit, audited bool) bool {
	for i := range n {
		before := g.quotas.at(i)
		if before.certain && (before.Mode != Audit || audited) && before.hasLimit(l.Name) {
			return true
		}
	}
	return false
}

// EventType returns Warning, or Normal for any other type that an Event may have.
func EventType(e *corev1.Event) string {
	if e.Type == corev1.EventTypeWarning {
		return e.Type
	}
	return corev1.EventTypeNormal
}

// release gives the turn back.
func (q *evaluation) release() {
	if q.acquired != nil {
		<-q.acquired
	}
}
