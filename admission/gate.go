// Package admission decides Event writes: it decodes reviews, names what they
// are about, asks the store and answers the API server.
package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// Gate decides Event writes. Its fields are set before the first call and not
// changed after; its methods are safe for concurrent use.
type Gate struct {
	Policies Policies
	Store    store.Store
	// StoreID names Store in what stored Events say of their counts; empty for one that all
	// replicas share.
	StoreID string
	// Audit decides, beside Store, what policies in mode Audit would do. What it
	// counts is never written to the API server. Nil where nothing is audited.
	Audit store.Store
	// Recorder is told what becomes of calls and writes. Nil for none.
	Recorder Recorder
	// MaxWriteInterval is the longest wait between two writes of a stored Event or
	// notice, unless its policy has a longer one as the shortest.
	MaxWriteInterval time.Duration
	// Now is the clock.
	Now func() time.Time
	// Local limits the Events that are admitted for want of a decision.
	Local *rate.Limiter
	// Tracer makes the parts of a review spans of their own, within the span of its
	// context. Nil for none.
	Tracer trace.Tracer
	// Complaints spaces the log lines about writes that could not be decided.
	Complaints *rate.Sometimes
}

// Phase decides one request in one phase of admission. An error means that it
// could not be decided.
type Phase func(ctx context.Context, r *Request) (Answer, error)

// Mutate decides a CREATE: it is stored, as it is or as an aggregate, merged into
// a stored Event, or dropped. What is stored may be rewritten.
func (g *Gate) Mutate(ctx context.Context, r *Request) (Answer, error) {
	if r.Operation != admissionv1.Create {
		return admit(Ignored), nil
	}
	return g.decide(ctx, r, true)
}

// Validate decides an UPDATE. It decides a CREATE too, as Mutate does, for where
// there is no mutating webhook; then nothing is rewritten.
func (g *Gate) Validate(ctx context.Context, r *Request) (Answer, error) {
	switch {
	case r.Operation != admissionv1.Create && r.Operation != admissionv1.Update:
		return admit(Ignored), nil
	case r.DryRun:
		return admit(Ignored), nil // it costs etcd nothing, and there is nothing to rewrite
	}
	return g.decide(ctx, r, false)
}

// decide is the way of every Event write. rewritable tells whether the answer may
// change the Event.
func (g *Gate) decide(ctx context.Context, r *Request, rewritable bool) (Answer, error) {
	switch {
	case !isEvent(r):
		return admit(Ignored), nil
	case r.Unreadable != nil:
		return Answer{}, r.Unreadable
	case r.Object == nil, r.Operation == admissionv1.Update && r.OldObject == nil:
		return Answer{}, errNoObject
	}
	gov, err := g.governing(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	q := g.newQuestion(r, gov, rewritable)
	switch {
	case r.DryRun:
		return q.admit(Admitted)
	case q.invalid():
		return admit(Ignored), nil // the API server refuses it
	}
	q.nameIt()
	warning := g.audit(ctx, q)
	d, err := g.ask(ctx, g.Store, q, gov.Policy, q.quotas())
	if err != nil {
		return Answer{}, fmt.Errorf("ask the store: %w", err)
	}
	g.noteBucket(ctx, d)
	g.passOn(q, d)
	a, err := q.answer(d)
	return a.with(warning), err
}

// governing is what applies to a request. It fails when there was no time to
// find out.
func (g *Gate) governing(ctx context.Context, r *Request) (policy.Governing, error) {
	partCtx, resolving := g.part(ctx, "resolve")
	gov := g.Policies.For(partCtx, r)
	resolving.End()
	g.notePolicy(ctx, gov.Policy)
	for _, e := range gov.Errors {
		g.Complaints.Do(func() {
			logr.FromContextOrDiscard(ctx).Error(e, "Condition of a policy cannot be evaluated, the policy does not match")
		})
	}
	if err := ctx.Err(); err != nil {
		return gov, fmt.Errorf("find the policy that governs: %w", err)
	}
	return gov, nil
}

var errNoObject = errors.New("review has no object to decide about")

func isEvent(r *Request) bool { return r.Kind.Kind == "Event" && r.Kind.Group == "" }
