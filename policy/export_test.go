package policy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// OccupyEvaluations takes all turns of the conditions of p, until they are given back.
func OccupyEvaluations(p *Policy) (giveBack func()) {
	of := p.Match.Conditions[0].semaphore
	for range cap(of) {
		of <- struct{}{}
	}
	return func() {
		for range cap(of) {
			<-of
		}
	}
}

// Matches reports whether an Event matches a rule, whatever its mode. The error says why that is unknown.
func Matches(ctx context.Context, s *Set, rule *Rule, namespace string, e *corev1.Event, r *Request) (bool, error) {
	q := s.newEvaluation(ctx, s.view(namespace), namespace, e, r)
	defer q.release()
	is := q.matches(rule)
	if len(q.resolution.Errors) > 0 {
		return false, q.resolution.Errors[0]
	}
	return is == yes, nil
}

// Evaluations is how many expressions a Set evaluates for an Event.
func Evaluations(ctx context.Context, s *Set, namespace string, e *corev1.Event, r *Request) (n int) {
	v := s.view(namespace)
	q := s.newEvaluation(ctx, v, namespace, e, r)
	defer q.release()
	for rule := range v.All() {
		q.matches(rule)
	}
	for _, is := range q.results {
		if is != 0 {
			n++
		}
	}
	return n
}
