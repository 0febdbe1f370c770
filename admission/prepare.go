package admission

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
)

var errNotCreated = errors.New("is no CREATE of an Event")

// Prepare does the part of Mutate that needs no store, and MutatePrepared does the rest. Prepare may run while a Gate with the same
// settings decides other requests. After an error, r is for Mutate, which says what failed.
func (g *Gate) Prepare(ctx context.Context, r *Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if r.Operation != admissionv1.Create || !r.isEvent() {
		return errNotCreated
	}
	q, err := g.questionOf(ctx, r, true)
	if err != nil || q.DryRun || q.invalid {
		return err
	}
	l := g.limitsInForce(q)
	if q.prepared = &l; applies(&l) {
		q.buildWrite()
	}
	return nil
}

// MutatePrepared is the Phase for a request that Prepare has prepared.
func (g *Gate) MutatePrepared(ctx context.Context, r *Request) (Answer, error) {
	return g.finish(ctx, &r.evaluation)
}
