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
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// Gate decides Event writes. Its fields are set before the first call and not
// changed after; its methods are safe for concurrent use.
type Gate struct {
	Policies Policies
	Store    store.Store
	// Audit decides, beside Store, what policies in mode Audit would do. Nobody
	// settles what it counts. Nil where nothing is audited.
	Audit store.Store
	// Told is told of each write that was decided. It must not block. Nil for
	// nobody.
	Told func(Decided)
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

// Mutate decides a CREATE: it is stored, as it is or as an aggregate, or
// merged into an Event that is stored already.
func (g *Gate) Mutate(ctx context.Context, r *Request) (Answer, error) {
	switch {
	case !isEvent(r), r.Operation != admissionv1.Create:
		return admit(Ignored), nil
	case r.Unreadable != nil:
		return Answer{}, r.Unreadable
	case r.Object == nil:
		return Answer{}, errNoObject
	}
	gov, err := g.governing(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	e := r.Object
	message, name := cut(gov.Policy, e.Message), e.Name
	if r.DryRun {
		return rewrite(Admitted, e, name, message)
	}
	if name == "" && e.GenerateName != "" {
		name = generate(e.GenerateName)
	}
	if name == "" {
		return rewrite(Ignored, e, name, message) // the API server refuses it
	}
	q := question{Request: r, gov: gov, name: name, message: message}
	warning := g.audit(ctx, q)
	d, err := g.merge(ctx, g.Store, q, gov.Policy, gov.Quotas())
	if err != nil {
		return Answer{}, fmt.Errorf("merge: %w", err)
	}
	g.noteBucket(ctx, d)
	a, refused := refusal(r, gov.Policy, g.Now(), d)
	switch {
	case refused:
		g.tell(q, d)
	case d.Verdict == store.Aggregate:
		a, err = rewrite(Aggregated, e, name, AggregateMessage(message, keepsSeries(e)))
	default:
		a, err = rewrite(Admitted, e, name, message)
	}
	a.Cut = !refused && len(message) < len(e.Message)
	return a.with(warning), err
}

// Validate decides a CREATE or UPDATE in its final form: every bucket gives a
// token for it, or it is refused.
func (g *Gate) Validate(ctx context.Context, r *Request) (Answer, error) {
	switch {
	case !isEvent(r), r.Operation != admissionv1.Create && r.Operation != admissionv1.Update:
		return admit(Ignored), nil
	case r.DryRun:
		return admit(Ignored), nil // it costs etcd nothing
	case r.Unreadable != nil:
		return Answer{}, r.Unreadable
	case r.Object == nil, r.Operation == admissionv1.Update && r.OldObject == nil:
		return Answer{}, errNoObject
	case r.Object.Name == "":
		return admit(Ignored), nil // the API server refuses it
	}
	gov, err := g.governing(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	q := question{Request: r, gov: gov, name: r.Object.Name, message: cut(gov.Policy, r.Object.Message)}
	warning := ""
	if r.Operation == admissionv1.Update {
		warning = g.audit(ctx, q)
	}
	d, err := g.take(ctx, g.Store, q, gov.Policy, gov.Quotas())
	if err != nil {
		return Answer{}, fmt.Errorf("take tokens: %w", err)
	}
	g.noteBucket(ctx, d)
	a, refused := refusal(r, gov.Policy, g.Now(), d)
	if !refused {
		a = admit(Admitted)
	}
	g.tell(q, d)
	return a.with(warning), nil
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

// generatedBytes is how much of a generateName the API server keeps.
const generatedBytes = 58

// generate makes a name as the API server would, with a longer random part:
// it no longer tries another one when the name is taken.
func generate(prefix string) string {
	return prefix[:min(len(prefix), generatedBytes)] + rand.String(10)
}
