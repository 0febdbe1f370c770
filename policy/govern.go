package policy

import (
	"context"
	"errors"
	"slices"

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
	q := question{ctx: ctx, event: e, request: r, namespace: namespace, labels: v.labels, clusterLeft: clusterBudget, ownLeft: ownBudget}
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
	// What the Set knows of the namespace.
	namespace string
	labels    labels.Set

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
	if !fits(m.Types, Type(q.event)) || !fits(m.Reasons, q.event.Reason) || !fits(m.Kinds, q.event.InvolvedObject.Kind) ||
		!fits(m.Controllers, Controller(q.event)) {
		return false, nil
	}
	if len(m.Conditions) == 0 {
		return true, nil
	}
	if q.values == nil {
		q.values = &activation{event: q.event, request: q.request, namespace: q.namespace, labels: q.labels}
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
