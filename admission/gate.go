// Package admission decides Event writes: it decodes reviews, computes the keys and limits of each write, calls the store,
// and answers the API server.
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
	// StoreID identifies Store in AnnotationMerged. It is empty for a store that all replicas share.
	StoreID string
	// AuditStore decides what policies and quotas in mode Audit would do. If it is nil, they are not evaluated.
	AuditStore store.Store
	// Observer is called with the results of calls and writes. It may be nil.
	Observer Observer
	// Sink takes copies of Event writes. It may be nil.
	Sink Sink
	// Workloads finds the workloads of pods. It may be nil.
	Workloads Workloads
	// Rights knows who may patch Events. If it is nil, nobody is known to.
	Rights Rights
	// MaxWriteInterval is the longest wait between two writes of a stored Event for policies that set none. A longer
	// writeInterval of a policy takes precedence.
	MaxWriteInterval time.Duration
	// Now is the clock.
	Now func() time.Time
	// UndecidedLimiter bounds the Events that are admitted without a decision. Nil admits none.
	UndecidedLimiter *Limiter
	// Log is for failures. A logger in the context of each call would cost allocations.
	Log logr.Logger
	// LogLimiter bounds the log lines about Events that could not be read or decided, and about conditions. Nil logs none.
	LogLimiter *Limiter
}

// Phase decides one request in one phase of admission. An error means that no decision was possible.
type Phase func(ctx context.Context, r *Request) (Answer, error)

// Mutate decides a CREATE. Its answer may rewrite the Event.
func (g *Gate) Mutate(ctx context.Context, r *Request) (Answer, error) {
	if r.Operation != admissionv1.Create {
		return admit(Ignored), nil
	}
	return g.decide(ctx, r, true)
}

// Validate decides an UPDATE, and a CREATE if there is no mutating webhook. It never rewrites the Event.
func (g *Gate) Validate(ctx context.Context, r *Request) (Answer, error) {
	switch {
	case r.Operation != admissionv1.Create && r.Operation != admissionv1.Update:
		return admit(Ignored), nil
	case r.DryRun:
		return admit(Ignored), nil // it costs etcd nothing, and there is nothing to rewrite
	}
	return g.decide(ctx, r, false)
}

// refuseUnidentified is the Phase for a review whose first MaxReviewBytes do not include the namespace, operation or user.
// The name of the Event comes before them, so a name that is too long can push them out.
func (g *Gate) refuseUnidentified(_ context.Context, r *Request) (Answer, error) {
	g.logFailure(r, r.DecodeError, "Event refused: its review is too long to identify the writer")
	g.copyUndecided(r, Denied)
	return refuseUnidentified(), nil
}

func (r *Request) isEvent() bool { return r.Kind.Kind == "Event" && r.Kind.Group == "" }

// isWrite reports whether r may write an Event.
func (r *Request) isWrite() bool {
	return r.isEvent() && (r.Operation == admissionv1.Create || r.Operation == admissionv1.Update || r.unidentified)
}

// decide decides an Event write. rewritable reports whether the answer may change the Event.
func (g *Gate) decide(ctx context.Context, r *Request, rewritable bool) (Answer, error) {
	q, err := g.prepareEvaluation(ctx, r, rewritable)
	if err != nil {
		return Answer{}, err
	}
	return g.finish(ctx, q)
}

// prepareEvaluation does the part of decide that needs no store.
func (g *Gate) prepareEvaluation(ctx context.Context, r *Request, rewritable bool) (*evaluation, error) {
	g.replaceUnreadable(r)
	resolution, err := g.resolve(ctx, r)
	if err != nil {
		return nil, err
	}
	q := g.newEvaluation(r, resolution, rewritable && r.DecodeError == nil)
	if q.invalid = !r.DryRun && q.isInvalid(); !q.invalid && !r.DryRun {
		q.assignName()
		q.chooseIdentity(g.Rights)
	}
	return q, nil
}

// finish calls the store if the write needs it, and returns the answer.
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
		return Answer{}, fmt.Errorf("call the store: %w", err)
	}
	if span := trace.SpanFromContext(ctx); d.RefusedBy != nil && span.IsRecording() {
		span.SetAttributes(attribute.String("eventquota.bucket", d.RefusedBy.Name))
	}
	g.observe(q, q.resolution.Policy, d, false)
	return q.answer(d)
}

// resolve resolves the policy and quotas of a request. It returns an error if ctx ends first.
func (g *Gate) resolve(ctx context.Context, r *Request) (policy.Resolution, error) {
	e := r.Object
	if r.DecodeError != nil {
		e = nil
	}
	resolution := g.Policies.Resolve(ctx, r.Namespace, e, &r.Request)
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("eventquota.policy", resolution.Policy.Name))
	}
	// Informers that are not synced yet need no action, so they are neither logged nor counted.
	resolution.Errors = slices.DeleteFunc(resolution.Errors, func(e *policy.EvaluationError) bool { return errors.Is(e, policy.ErrNotSynced) })
	for _, e := range resolution.Errors {
		g.logFailure(r, e, "Cannot evaluate whether a policy or quota matches")
	}
	if err := ctx.Err(); err != nil {
		return resolution, fmt.Errorf("resolve policies: %w", err)
	}
	return resolution, nil
}

var errNoObject = errors.New("review has no object")

// replaceUnreadable replaces an Event that cannot be read with an empty one in the namespace of the request. So the write
// is subject to the limits of its namespace and user, and takes no tokens of other namespaces.
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

// Decide runs a phase for an Event write, and ignores any other request. If no decision is possible, because the store fails or the
// code panics, the local limit decides.
func (g *Gate) Decide(ctx context.Context, decide Phase, r *Request) (a Answer) {
	defer func() {
		if p := recover(); p != nil {
			a = g.answerUndecided(r, fmt.Errorf("panic: %v", p))
		}
		a.Response.UID = r.UID
	}()
	r.decidedAt = DecisionTime{}
	if !r.isWrite() {
		return admit(Ignored)
	}
	if err := ctx.Err(); err != nil {
		// The caller has stopped waiting, so the store must not count the Event.
		return g.answerUndecided(r, fmt.Errorf("too late to decide: %w", err))
	}
	a, err := decide(ctx, r)
	if err != nil {
		return g.answerUndecided(r, err)
	}
	a.DecidedAt = r.decidedAt
	return a
}

// answerUndecided answers a write without a decision: it admits up to UndecidedLimiter, and refuses more.
func (g *Gate) answerUndecided(r *Request, err error) Answer {
	g.logFailure(r, err, "Event write not decided, the local limit applies")
	if r.DryRun || g.UndecidedLimiter.allow(g.Now(), r.Namespace) {
		g.copyUndecided(r, Undecided)
		return admit(Undecided)
	}
	g.copyUndecided(r, Overloaded)
	return overloaded.answer("no decision in time, and the local limit for undecided Events is reached")
}

// logFailure logs an error of a request, within LogLimiter.
func (g *Gate) logFailure(r *Request, err error, message string) {
	if g.LogLimiter.allow(g.Now(), r.Namespace) {
		g.Log.Error(err, message, "namespace", r.Namespace, "operation", r.Operation, "user", r.UserInfo.Username)
	}
}

// Policies resolves the policy and quotas of an Event write; policy.Current implements it. It must be safe for concurrent
// use, and may wait only for other calls. The Event is nil if it cannot be read.
type Policies interface {
	// Resolve returns the policy and quotas of one Event write. Results must not share Errors, because the Gate deletes
	// elements of that slice.
	Resolve(ctx context.Context, namespace string, e *corev1.Event, r *policy.Request) policy.Resolution
}

// Rights knows who may change Events; rights.Cache implements it. It must be safe for concurrent use and must not block.
type Rights interface {
	// MayPatchEvents reports whether a user is known to be allowed to patch all Events of a namespace through the API of a group.
	MayPatchEvents(namespace, group string, u *policy.UserInfo) bool
}

// Workloads finds the workloads of objects; workload.Cache implements it. It must be safe for concurrent use and must not
// block.
type Workloads interface {
	// Find returns the workload that an object of a namespace belongs to, and whether it is known. The uid may be empty.
	Find(namespace, kind, name, uid string) (workload store.Object, known bool)
}

// audit decides a write as if all policies and quotas in mode Audit were in mode Enforce.
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
	// ObserveReview is called once for each call of a Handler, with the handler's name. The outcome is empty if the call
	// was not a review.
	ObserveReview(handler string, o Outcome, took time.Duration)
	// ObserveDecision is called for each decided Event write.
	ObserveDecision(d DecidedWrite)
}

// DecidedWrite describes the decision about one Event write. A write that a policy or quota in mode Audit matches has a
// second one, Audited. Ignored and undecided writes and dry runs have none.
type DecidedWrite struct {
	// Rule is the policy or quota that decided: the one whose bucket was empty, otherwise the policy that governs. It is
	// never nil.
	Rule *policy.Rule
	// Audited means that this would be the decision if all objects in mode Audit were in mode Enforce. Rule is then in
	// mode Audit, unless it would have decided the same anyway.
	Audited bool
	Verdict store.Verdict
	// Bucket is the name, as in answers, of the bucket of Rule that had no token. It is empty if Rule drops all Events, or
	// if Verdict is neither Drop nor Deny.
	Bucket string
	// Quotas are the quota buckets from which an admitted write took a token each, or a dropped one would have. Resolution
	// has their limits. Neither must be changed or kept.
	Quotas     []store.Bucket
	Resolution *policy.Resolution
	// Request must not be changed or kept.
	Request *Request
	// Object is the involved object, or the Event's namespace if the object is in another one. Source reports the Event; its
	// component is "unknown" if the Event has none. Both are as the writer states them.
	Object store.Object
	Source store.Source
	// Workload is the workload that Object belongs to, or the zero value if it is unknown.
	Workload store.Object
	// OverflowQuota is set if an overflow bucket decided because the namespace is at its bound of buckets of that quota.
	// OverflowPolicy is set if the namespace is at its bound of registers. Nearly always both are nil.
	OverflowQuota, OverflowPolicy *policy.Rule
	// Errors are of policies and quotas whose match could not be evaluated. An Audited write has none, so that each error
	// is counted once.
	Errors []*policy.EvaluationError
}

// observe passes a decision under a policy to the Observer and the Sink.
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

// decidingRule returns the policy or quota whose bucket had no token, otherwise p, the policy that the store applied.
func (q *evaluation) decidingRule(p *policy.Policy, d store.Decision) *policy.Rule {
	if d.RefusedBy != nil {
		if r := q.resolution.Rule(d.RefusedBy.Policy); r != nil {
			return r
		}
	}
	return &p.Rule
}

// emptyBucket returns the bucket that had no token, or the zero value if none was empty.
func emptyBucket(d store.Decision) store.Bucket {
	if d.RefusedBy == nil {
		return store.Bucket{}
	}
	return *d.RefusedBy
}
