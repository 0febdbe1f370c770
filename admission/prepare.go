package admission

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
)

var errNotCreated = errors.New("request must be a CREATE of an Event")

// Prepare does the part of Mutate that needs no store; MutatePrepared does the rest. It may run while a Gate with the same
// settings decides other requests. After an error, pass r to Mutate, which reports the failure.
func (g *Gate) Prepare(ctx context.Context, r *Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if r.Operation != admissionv1.Create || !r.isEvent() {
		return errNotCreated
	}
	q, err := g.prepareEvaluation(ctx, r, true)
	if err != nil || q.DryRun || q.invalid {
		return err
	}
	l := g.limitsInForce(q)
	if q.prepared = &l; applies(&l) {
		q.buildWrite()
	}
	return nil
}

// MutatePrepared is the Phase for a request after a successful Prepare.
func (g *Gate) MutatePrepared(ctx context.Context, r *Request) (Answer, error) {
	return g.finish(ctx, &r.evaluation)
}
