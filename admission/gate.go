// Package admission decides Event writes: it decodes reviews, names what they
// are about, asks the store and answers the API server.
package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// Gate decides Event writes. Its fields are set before the first call; its methods are safe for concurrent use.
type Gate struct {
	Policies Policies
	Store    store.Store
	// StoreID names Store in what stored Events say of their counts; empty for one that all replicas share.
	StoreID string
	// AuditStore decides, beside Store, what policies in mode Audit would do. Nil where nothing is audited.
	AuditStore store.Store
	// Observer is called with the results of calls and writes. Nil for none.
	Observer Observer
	// Sink takes copies of Event writes. Nil for none.
	Sink Sink
	// Workloads knows what pods belong to. Nil for nothing.
	Workloads Workloads
	// MaxWriteInterval is the longest wait between two writes, unless a policy has a longer one as the shortest.
	MaxWriteInterval time.Duration
	// Now is the clock.
	Now func() time.Time
	// UndecidedLimiter bounds the Events that are admitted without a decision.
	UndecidedLimiter *Limiter
	// Log is for failures. A logger in the context of each call would cost allocations.
	Log logr.Logger
	// LogLimiter bound the log lines about Events that could not be read or decided, and about conditions.
	LogLimiter *Limiter
}

// Phase decides one request in one phase of admission. An error means that it could not be decided.
type Phase func(ctx context.Context, r *Request) (Answer, error)

// Mutate decides a CREATE. What is stored may be rewritten.
func (g *Gate) Mutate(ctx context.Context, r *Request) (Answer, error) {
	if r.Operation != admissionv1.Create {
		return admit(Ignored), nil
	}
	return g.decide(ctx, r, true)
}

// Validate decides an UPDATE, and a CREATE where there is no mutating webhook; nothing is rewritten.
func (g *Gate) Validate(ctx context.Context, r *Request) (Answer, error) {
	switch {
	case r.Operation != admissionv1.Create && r.Operation != admissionv1.Update:
		return admit(Ignored), nil
	case r.DryRun:
		return admit(Ignored), nil // it costs etcd nothing, and there is nothing to rewrite
	}
	return g.decide(ctx, r, false)
}

// refuseUnidentified decides a write whose review does not say within MaxReviewBytes whose it is: the name of the Event comes before that.
func (g *Gate) refuseUnidentified(_ context.Context, r *Request) (Answer, error) {
	if !r.isEvent() {
		return admit(Ignored), nil
	}
	g.logFailure(r, r.DecodeError, "Event refused, as its review is too long to say whose it is")
	g.copyUndecided(r, Denied)
	return refuseUnidentified(), nil
}

func (r *Request) isEvent() bool { return r.Kind.Kind == "Event" && r.Kind.Group == "" }

// decide decides every Event write. rewritable reports whether the answer may change the Event.
func (g *Gate) decide(ctx context.Context, r *Request, rewritable bool) (Answer, error) {
	if !r.isEvent() {
		return admit(Ignored), nil
	}
	q, err := g.prepareEvaluation(ctx, r, rewritable)
	if err != nil {
		return Answer{}, err
	}
	return g.finish(ctx, q)
}

// prepareEvaluation is what decide finds out about a write of an Event before it asks a store.
func (g *Gate) prepareEvaluation(ctx context.Context, r *Request, rewritable bool) (*evaluation, error) {
	g.replaceUnreadable(r)
	gov, err := g.resolve(ctx, r)
	if err != nil {
		return nil, err
	}
	q := g.newEvaluation(r, gov, rewritable && r.DecodeError == nil)
	if q.invalid = !r.DryRun && q.isInvalid(); !q.invalid && !r.DryRun {
		q.assignName()
		q.chooseIdentity()
	}
	return q, nil
}

// finish asks the store about a write, unless that needs none, and makes the answer.
func (g *Gate) finish(ctx context.Context, q *evaluation) (Answer, error) {
	switch {
	case q.DryRun:
		return q.admit(Admitted, 0)
	case q.invalid:
		return admit(Ignored), nil // the API server refuses it
	}
	g.audit(ctx, q)
	d, err := g.evaluate(ctx, g.Store, q, g.limitsInForce(q))
	if err != nil {
		return Answer{}, fmt.Errorf("ask the store: %w", err)
	}
	if span := trace.SpanFromContext(ctx); d.RefusedBy != nil && span.IsRecording() {
		span.SetAttributes(attribute.String("eventquota.bucket", d.RefusedBy.Name))
	}
	g.observe(q, q.resolution.Policy, d, false)
	return q.answer(d)
}

// resolve is what applies to a request. It fails when time runs out.
func (g *Gate) resolve(ctx context.Context, r *Request) (policy.Resolution, error) {
	e := r.Object
	if r.DecodeError != nil {
		e = nil
	}
	gov := g.Policies.Resolve(ctx, r.Namespace, e, &r.Request)
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("eventquota.policy", gov.Policy.Name))
	}
	// In a moment more is known, which nobody has to see to.
	gov.Errors = slices.DeleteFunc(gov.Errors, func(e *policy.EvaluationError) bool { return errors.Is(e, policy.ErrNotSynced) })
	for _, e := range gov.Errors {
		g.logFailure(r, e, "Unknown whether a rule matches")
	}
	if err := ctx.Err(); err != nil {
		return gov, fmt.Errorf("find the policy that governs: %w", err)
	}
	return gov, nil
}

var errNoObject = errors.New("review has no object to decide about")

// replaceUnreadable puts an Event without content, in the namespace of the request, in the place of one that cannot be
// read. So it is subject to all that limits its namespace and its user, and takes nothing from other namespaces.
func (g *Gate) replaceUnreadable(r *Request) {
	if r.DecodeError == nil && (r.Object == nil || r.Operation == admissionv1.Update && r.OldObject == nil) {
		r.DecodeError = errNoObject
	}
	if r.DecodeError == nil {
		return
	}
	r.Object, r.OldObject = &corev1.Event{}, nil
	r.Object.Namespace, r.Object.Name, r.Object.InvolvedObject.Namespace = r.Namespace, r.Name, r.Namespace
	g.logFailure(r, r.DecodeError, "Event cannot be read, deciding without its content")
}

// Decide runs a phase. If the store fails or the code panics, the write is admitted under the local limit.
func (g *Gate) Decide(ctx context.Context, decide Phase, r *Request) (a Answer) {
	defer func() {
		if p := recover(); p != nil {
			a = g.answerUndecided(r, fmt.Errorf("panic: %v", p))
		}
		a.Response.UID = r.UID
	}()
	r.decidedAt = DecisionTime{}
	if err := ctx.Err(); err != nil {
		// Nobody waits for the answer any more, so it must not be counted.
		return g.answerUndecided(r, fmt.Errorf("too late to decide: %w", err))
	}
	a, err := decide(ctx, r)
	if err != nil {
		return g.answerUndecided(r, err)
	}
	a.DecidedAt = r.decidedAt
	return a
}

// answerUndecided answers a write that could not be decided: it is admitted, up to the local limit.
func (g *Gate) answerUndecided(r *Request, err error) Answer {
	g.logFailure(r, err, "Event write not decided, the local limit applies")
	if r.DryRun || g.UndecidedLimiter.allow(g.Now(), r.Namespace) {
		g.copyUndecided(r, Undecided)
		return admit(Undecided)
	}
	g.copyUndecided(r, Overloaded)
	return refuseTooMany(Overloaded, "no decision in time, and the local limit for undecided Events is reached")
}

// logFailure logs what failed for a request.
func (g *Gate) logFailure(r *Request, err error, says string) {
	if g.LogLimiter.allow(g.Now(), r.Namespace) {
		g.Log.Error(err, says, "namespace", r.Namespace, "operation", r.Operation, "user", r.UserInfo.Username)
	}
}

// Policies says what applies to an Event write: policy.Current does. It is safe for concurrent use, and waits for other calls
// at most. The Event is nil where it cannot be read.
type Policies interface {
	Resolve(ctx context.Context, namespace string, e *corev1.Event, r *policy.Request) policy.Resolution
}

// Workloads knows the workloads of objects: workload.Cache does. It is safe for concurrent use, and must not block.
type Workloads interface {
	// Find says which workload an object of a namespace belongs to, and whether that is known. The uid may be empty.
	Find(namespace, kind, name, uid string) (workload store.Object, known bool)
}

// audit decides a write as if all that is in mode Audit were in mode Enforce.
func (g *Gate) audit(ctx context.Context, q *evaluation) {
	p := q.resolution.AuditPolicy
	if p == nil && q.resolution.HasAuditQuotas() {
		p = q.resolution.Policy
	}
	if p == nil || g.AuditStore == nil {
		return
	}
	d, err := g.evaluate(ctx, g.AuditStore, q, g.storeLimits(q, p, q.resolution.AuditLimits()))
	if err != nil {
		g.Log.V(1).Info("Event write not audited", "policy", p.Name, "reason", err.Error())
		return
	}
	g.observe(q, p, d, true)
}

// Observer is called with the results of calls and of Event writes. Its methods must be safe for
// concurrent use and must not block.
type Observer interface {
	// ObserveReview is called once for each call of a Handler, by its name. The outcome of a call that was no review is
	// empty.
	ObserveReview(handler string, o Outcome, took time.Duration)
	// ObserveDecision is called for each Event write that was decided.
	ObserveDecision(d DecidedWrite)
}

// DecidedWrite is one Event write that was decided. There is one for each, and a second one, Audited, where a policy in mode
// Audit matches. There is none for writes that are ignored, undecided or dry runs.
type DecidedWrite struct {
	// Rule decided: the one whose bucket was empty, otherwise the policy that governs. It is never nil.
	Rule *policy.Rule
	// Audited says that this would be the decision if all in mode Audit were in mode Enforce. Rule is then in
	// that mode, unless it would have decided the same anyway.
	Audited bool
	Verdict store.Verdict
	// Bucket is the name in answers of the bucket of Rule that had no token. It is empty unless
	// Verdict is Drop or Deny, and where Rule drops all.
	Bucket string
	// Quotas are the buckets of which an admitted write took a token each, and a dropped one would have. Governing has the
	// limits that they are of. Neither must be changed or kept.
	Quotas     []store.Bucket
	Resolution *policy.Resolution
	// Request must not be changed or kept.
	Request *Request
	// Object is what the Event is about, or its namespace where that is in another one, and Source is who reports
	// it ("unknown" for nobody), as its writer says.
	Object store.Object
	Source store.Source
	// Workload is what Object belongs to; the zero value where that is not known.
	Workload store.Object
	// OverflowQuota is the quota of which the namespace has as many buckets as it may, and OverflowPolicy the policy where that is so
	// of registers: an overflow bucket has decided. Nil where there was a place, as nearly always.
	OverflowQuota, OverflowPolicy *policy.Rule
	// Errors say of which rules it is unknown whether they match. An Audited write has none: they are of the other one.
	Errors []*policy.EvaluationError
}

// observe passes a decision under a policy on to the Observer and the Sink.
func (g *Gate) observe(q *evaluation, p *policy.Policy, d store.Decision, audited bool) {
	if g.Observer == nil && g.Sink == nil {
		return
	}
	decided := DecidedWrite{
		Rule: q.decidingRule(p, d), Audited: audited, Verdict: d.Verdict, Bucket: emptyBucket(d).Name,
		Request: q.Request, Object: q.involvedObject, Source: noticeSource(q.Object), Workload: q.workload, Resolution: &q.resolution,
	}
	if !audited {
		decided.Errors = q.resolution.Errors
	}
	if !d.Retry && d.Overflowed == nil {
		decided.Quotas = q.quotaBuckets
	}
	if d.Overflowed != nil {
		decided.OverflowQuota = q.resolution.Rule(d.Overflowed.Policy)
	}
	if d.Untracked {
		decided.OverflowPolicy = &p.Rule
	}
	if g.Observer != nil {
		g.Observer.ObserveDecision(decided)
	}
	if g.Sink != nil && !audited {
		g.copyDecided(q, &decided, &d)
	}
}

// decidingRule is the rule that decided: the one whose bucket had no token, else the policy under which the store was asked.
func (q *evaluation) decidingRule(p *policy.Policy, d store.Decision) *policy.Rule {
	if d.RefusedBy != nil {
		if r := q.resolution.Rule(d.RefusedBy.Policy); r != nil {
			return r
		}
	}
	return &p.Rule
}

// emptyBucket is the bucket that had no token; the zero value where none was empty.
func emptyBucket(d store.Decision) store.Bucket {
	if d.RefusedBy == nil {
		return store.Bucket{}
	}
	return *d.RefusedBy
}
