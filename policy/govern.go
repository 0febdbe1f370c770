package policy

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
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

// ended tells whether the cluster policies that were not asked yet have
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
