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
	// Audit decides, beside Store, what policies in mode Audit would do. Nil where nothing is audited.
	Audit store.Store
	// Recorder is called with the results of calls and writes. Nil for none.
	Recorder Recorder
	// Sink takes copies of Event writes. Nil for none.
	Sink Sink
	// Workloads knows what pods belong to. Nil for nothing.
	Workloads Workloads
	// MaxWriteInterval is the longest wait between two writes, unless a policy has a longer one as the shortest.
	MaxWriteInterval time.Duration
	// Now is the clock.
	Now func() time.Time
	// Local bounds the Events that are admitted without a decision.
	Local *Allowance
	// Log is for failures. A logger in the context of each call would cost allocations.
	Log logr.Logger
	// Complaints bound the log lines about Events that could not be read or decided, and about conditions.
	Complaints *Allowance
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

// refuseUnidentified decides a write whose review does not say within MaxBytes whose it is: the name of the Event comes before that.
func (g *Gate) refuseUnidentified(_ context.Context, r *Request) (Answer, error) {
	if !r.isEvent() {
		return admit(Ignored), nil
	}
	g.complain(r, r.Unreadable, "Event refused, as its review is too long to say whose it is")
	g.copyUndecided(r, Denied)
	return unidentified(), nil
}

func (r *Request) isEvent() bool { return r.Kind.Kind == "Event" && r.Kind.Group == "" }

// decide decides every Event write. rewritable reports whether the answer may change the Event.
func (g *Gate) decide(ctx context.Context, r *Request, rewritable bool) (Answer, error) {
	if !r.isEvent() {
		return admit(Ignored), nil
	}
	q, err := g.questionOf(ctx, r, rewritable)
	if err != nil {
		return Answer{}, err
	}
	return g.finish(ctx, q)
}

// questionOf is what decide finds out about a write of an Event before it asks a store.
func (g *Gate) questionOf(ctx context.Context, r *Request, rewritable bool) (*question, error) {
	g.replaceUnreadable(r)
	gov, err := g.governing(ctx, r)
	if err != nil {
		return nil, err
	}
	q := g.newQuestion(r, gov, rewritable && r.Unreadable == nil)
	if q.invalid = !r.DryRun && q.isInvalid(); !q.invalid && !r.DryRun {
		q.nameIt()
		q.identify()
	}
	return q, nil
}

// finish asks the store about a write, unless that needs none, and makes the answer.
func (g *Gate) finish(ctx context.Context, q *question) (Answer, error) {
	switch {
	case q.DryRun:
		return q.admit(Admitted, 0)
	case q.invalid:
		return admit(Ignored), nil // the API server refuses it
	}
	g.audit(ctx, q)
	d, err := g.ask(ctx, g.Store, q, g.limitsInForce(q))
	if err != nil {
		return Answer{}, fmt.Errorf("ask the store: %w", err)
	}
	if span := trace.SpanFromContext(ctx); d.Empty != nil && span.IsRecording() {
		span.SetAttributes(attribute.String("eventquota.bucket", d.Empty.Name))
	}
	g.passOn(q, q.gov.Policy, d, false)
	return q.answer(d)
}

// governing is what applies to a request. It fails when time runs out.
func (g *Gate) governing(ctx context.Context, r *Request) (policy.Governing, error) {
	e := r.Object
	if r.Unreadable != nil {
		e = nil
	}
	gov := g.Policies.For(ctx, r.Namespace, e, &r.Request)
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("eventquota.policy", gov.Policy.Name))
	}
	// In a moment more is known, which nobody has to see to.
	gov.Errors = slices.DeleteFunc(gov.Errors, func(e *policy.EvaluationError) bool { return errors.Is(e, policy.ErrNotKnownYet) })
	for _, e := range gov.Errors {
		g.complain(r, e, "Unknown whether a rule matches")
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
	if r.Unreadable == nil && (r.Object == nil || r.Operation == admissionv1.Update && r.OldObject == nil) {
		r.Unreadable = errNoObject
	}
	if r.Unreadable == nil {
		return
	}
	r.Object, r.OldObject = &corev1.Event{}, nil
	r.Object.Namespace, r.Object.Name, r.Object.InvolvedObject.Namespace = r.Namespace, r.Name, r.Namespace
	g.complain(r, r.Unreadable, "Event cannot be read, deciding without its content")
}

// Decide runs a phase. If the store fails or the code panics, the write is admitted under the local limit.
func (g *Gate) Decide(ctx context.Context, decide Phase, r *Request) (a Answer) {
	defer func() {
		if p := recover(); p != nil {
			a = g.undecided(r, fmt.Errorf("panic: %v", p))
		}
		a.Response.UID = r.UID
	}()
	r.decided = Moment{}
	if err := ctx.Err(); err != nil {
		// Nobody waits for the answer any more, so it must not be counted.
		return g.undecided(r, fmt.Errorf("too late to decide: %w", err))
	}
	a, err := decide(ctx, r)
	if err != nil {
		return g.undecided(r, err)
	}
	a.Decided = r.decided
	return a
}

// undecided answers a write that could not be decided: it is admitted, up to the local limit.
func (g *Gate) undecided(r *Request, err error) Answer {
	g.complain(r, err, "Event write not decided, the local limit applies")
	if r.DryRun || g.Local.admits(g.Now(), r.Namespace) {
		g.copyUndecided(r, Undecided)
		return admit(Undecided)
	}
	g.copyUndecided(r, Overloaded)
	return tooMany(Overloaded, "no decision in time, and the local limit for undecided Events is reached")
}

// complain logs what failed for a request.
func (g *Gate) complain(r *Request, err error, says string) {
	if g.Complaints.admits(g.Now(), r.Namespace) {
		g.Log.Error(err, says, "namespace", r.Namespace, "operation", r.Operation, "user", r.UserInfo.Username)
	}
}

// Policies says what applies to an Event write: policy.Current does. It is safe for concurrent use, and waits for other calls
// at most. The Event is nil where it cannot be read.
type Policies interface {
	For(ctx context.Context, namespace string, e *corev1.Event, r *policy.Request) policy.Governing
}

// Workloads knows the workloads of objects: workload.Cache does. It is safe for concurrent use, and must not block.
type Workloads interface {
	// Find says which workload an object of a namespace belongs to, and whether that is known. The uid may be empty.
	Find(namespace, kind, name, uid string) (workload store.Object, known bool)
}

// audit decides a write as if all that is in mode Audit were in mode Enforce.
func (g *Gate) audit(ctx context.Context, q *question) {
	p := q.gov.Audit
	if p == nil && q.gov.Audited() {
		p = q.gov.Policy
	}
	if p == nil || g.Audit == nil {
		return
	}
	d, err := g.ask(ctx, g.Audit, q, g.limitsOf(q, p, q.gov.AuditLimits()))
	if err != nil {
		g.Log.V(1).Info("Event write not audited", "policy", p.Name, "reason", err.Error())
		return
	}
	g.passOn(q, p, d, true)
}

// Recorder is called with the results of calls and of Event writes. Its methods must be safe for
// concurrent use and must not block.
type Recorder interface {
	// Reviewed is called once for each call of a Handler, by its name. The outcome of a call that was no review is
	// empty.
	Reviewed(handler string, o Outcome, took time.Duration)
	// Decided is called for each Event write that was decided.
	Decided(d Decided)
}

// Decided is one Event write that was decided. There is one for each, and a second one, Audited, where a policy in mode
// Audit matches. There is none for writes that are ignored, undecided or dry runs.
type Decided struct {
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
	Quotas    []store.Bucket
	Governing *policy.Governing
	// Request must not be changed or kept.
	Request *Request
	// Object is what the Event is about, or its namespace where that is in another one, and Source is who reports
	// it ("unknown" for nobody), as its writer says.
	Object store.Object
	Source store.Source
	// Workload is what Object belongs to; the zero value where that is not known.
	Workload store.Object
	// NoBucket is the quota of which the namespace has as many buckets as it may, and NoRegister the policy where that is so
	// of registers: an overflow bucket has decided. Nil where there was a place, as nearly always.
	NoBucket, NoRegister *policy.Rule
	// Errors say of which rules it is unknown whether they match. An Audited write has none: they are of the other one.
	Errors []*policy.EvaluationError
}

// passOn passes a decision under a policy on to the Recorder and the Sink.
func (g *Gate) passOn(q *question, p *policy.Policy, d store.Decision, audited bool) {
	if g.Recorder == nil && g.Sink == nil {
		return
	}
	decided := Decided{
		Rule: q.owner(p, d), Audited: audited, Verdict: d.Verdict, Bucket: emptyBucket(d).Name,
		Request: q.Request, Object: q.about, Source: sourceOf(q.Object), Workload: q.workload, Governing: &q.gov,
	}
	if !audited {
		decided.Errors = q.gov.Errors
	}
	if !d.Paid && d.NoPlace == nil {
		decided.Quotas = q.quotas
	}
	if d.NoPlace != nil {
		decided.NoBucket = q.gov.Rule(d.NoPlace.Policy)
	}
	if d.Unrecorded {
		decided.NoRegister = &p.Rule
	}
	if g.Recorder != nil {
		g.Recorder.Decided(decided)
	}
	if g.Sink != nil && !audited {
		g.copyDecided(q, &decided, &d)
	}
}

// owner is the rule that decided: the one whose bucket had no token, else the policy under which the store was asked.
func (q *question) owner(p *policy.Policy, d store.Decision) *policy.Rule {
	if d.Empty != nil {
		if r := q.gov.Rule(d.Empty.Policy); r != nil {
			return r
		}
	}
	return &p.Rule
}

// emptyBucket is the bucket that had no token; the zero value where none was empty.
func emptyBucket(d store.Decision) store.Bucket {
	if d.Empty == nil {
		return store.Bucket{}
	}
	return *d.Empty
}
