package simulate

import (
	"context"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store/memory"
)

// What serve does by default, on a replica without Redis.
const (
	// localRate is how many Events a second are admitted without a decision.
	localRate = 100
	// settleRate is how many writes a second settle.
	settleRate       = 100
	maxWriteInterval = time.Minute
)

// progressEvery is how many writes there are between two calls of Options.Progress.
const progressEvery = 4096

// Options say what a Trace is run under.
type Options struct {
	// Rules are in force all the time.
	Rules Rules
	// Bound says how many writes a stored Event stands for.
	Bound Bound
	// StoreBytes is the memory of the store, at least memory.MinBytes.
	StoreBytes int64
	// EventTTL is how long the API server keeps an Event after its last write. More than 0.
	EventTTL time.Duration
	// Decided is called with every decision, in order. May be nil.
	Decided func(Decision)
	// Progress is called now and then with how many of how many writes are done. May be nil.
	Progress func(done, of int64)
}

// run is a Trace being run.
type run struct {
	opts   Options
	trace  *Trace
	gate   *admission.Gate
	store  *memory.Store
	api    *apiServer
	result *Result
	// asked is the request that the gate is asked about.
	asked admission.Request
	// now is the clock, and settled is when the settler looked last.
	now, settled time.Time
}

// Run decides all writes. What it returns depends on nothing but the trace and o, except for the names of Events
// that ask for a generated one. It fails when the temporary files do, or when ctx ends.
func (t *Trace) Run(ctx context.Context, o Options) (*Result, error) {
	r := &run{opts: o, trace: t, result: newResult(&t.Input), store: memory.New(memory.Options{Bytes: o.StoreBytes})}
	if err := t.spool.cut(t.end); err != nil { // what another run stored
		return nil, err
	}
	r.api = newAPIServer(t.spool, o.EventTTL)
	rules := newUsage(&o.Rules)
	r.gate = &admission.Gate{
		Policies:         rules,
		Store:            r.store,
		Audit:            memory.New(memory.Options{Bytes: memory.AuditBytes, Unsettled: true}),
		Recorder:         r.result,
		Now:              func() time.Time { return r.now },
		MaxWriteInterval: maxWriteInterval,
		Local:            admission.NewAllowance(localRate, time.Second),
	}
	done, of := int64(0), t.Input.Most
	if o.Bound == Fewest {
		of = t.Input.Fewest
	}
	progress := func() {
		if o.Progress != nil {
			o.Progress(done, of)
		}
	}
	err := t.each(ctx, o.Bound, func(w *write) error {
		if done%progressEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			progress()
		}
		done++
		return r.do(ctx, w)
	})
	if err != nil {
		return nil, err
	}
	progress()
	if err := r.drain(ctx); err != nil {
		return nil, err
	}
	r.result.finish()
	r.result.Unused, r.result.FailedConditions = rules.unused(), rules.failedConditions()
	return r.result, nil
}

// do carries out one write, when its time has come.
func (r *run) do(ctx context.Context, w *write) error {
	if err := r.advance(ctx, w.at, w.Late); err != nil {
		return err
	}
	if w.Verb == remove {
		r.api.remove(w.Namespace, w.Name)
		return nil
	}
	if w.Verb == create {
		return r.create(ctx, w, w.event)
	}
	old, refused, err := r.api.get(r.now, w.Namespace, w.Name)
	if err != nil {
		return err
	}
	after := w.event
	switch {
	case old != nil:
		if after, err = w.apply(old); err != nil {
			r.decided(w, old, Unknown, "patch: "+err.Error())
			return nil //nolint:nilerr // it is counted
		}
	case after == nil:
		r.decided(w, nil, Unknown, "")
		return nil
	default:
		old = before(after) // it was created before the input begins
	}
	if refused {
		// A recorder whose Event is not found creates it, with the count so far.
		return r.create(ctx, w, after)
	}
	return r.update(ctx, w, old, after)
}

// decide asks a phase what the API server would ask the webhook.
func (r *run) decide(ctx context.Context, phase admission.Phase, w *write, e, old *corev1.Event) admission.Answer {
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	resource := metav1.GroupVersionResource{Version: "v1", Resource: "events"}
	a := &r.asked
	a.Request = policy.Request{
		Kind: kind, Resource: resource, RequestKind: kind, RequestResource: resource,
		Name: e.Name, Namespace: w.Namespace, Operation: admissionv1.Create, UserInfo: r.trace.users.all[w.User],
	}
	a.UID, a.Object, a.OldObject, a.Options = "simulate", e, old, admission.WriteOptions{}
	if old != nil {
		a.Operation = admissionv1.Update
	}
	if w.NewAPI {
		a.RequestKind.Group, a.RequestResource.Group = newGroup, newGroup
	}
	if w.Managed {
		a.Options.FieldManager = "client"
	}
	return r.gate.Decide(ctx, phase, a)
}

// create decides a CREATE of e and stores it, if it is admitted and its name is free.
func (r *run) create(ctx context.Context, w *write, e *corev1.Event) error {
	e.Namespace = w.Namespace
	a := r.decide(ctx, r.gate.Mutate, w, e, nil)
	if !a.Response.Allowed {
		r.decided(w, e, a.Outcome, a.Response.Result.Message)
		if e.Name == "" {
			return nil
		}
		return r.api.refuse(r.now, w, e)
	}
	if len(a.Response.Patch) > 0 {
		e = e.DeepCopy()
		if err := admission.Apply(a.Response.Patch, e); err != nil {
			return err
		}
	}
	if e.Name == "" || r.api.has(r.now, r.api.key(e.Namespace, e.Name)) {
		r.decided(w, e, Failed, "")
		return nil
	}
	r.result.EtcdWrites.Events++
	r.result.Stored++
	r.decided(w, e, a.Outcome, "")
	return r.api.put(r.now, e)
}

// update decides an UPDATE and stores it, if it is admitted.
func (r *run) update(ctx context.Context, w *write, old, e *corev1.Event) error {
	e.Namespace, old.Namespace = w.Namespace, w.Namespace
	a := r.decide(ctx, r.gate.Validate, w, e, old)
	if !a.Response.Allowed {
		r.decided(w, e, a.Outcome, a.Response.Result.Message)
		return nil
	}
	r.result.EtcdWrites.Events++
	r.decided(w, e, a.Outcome, "")
	return r.api.put(r.now, e)
}

// decided counts what became of a write and reports it.
func (r *run) decided(w *write, e *corev1.Event, o admission.Outcome, message string) {
	r.result.Outcomes[o]++
	r.result.Timeline.count(w.at, o)
	if !w.Free {
		r.result.EtcdWrites.Before++
	}
	if r.opts.Decided == nil {
		return
	}
	d := Decision{
		Time: w.at, File: r.trace.Input.Files[w.File], Line: w.Line, AuditID: w.ID, Verb: w.Verb.String(),
		Namespace: w.Namespace, Name: w.Name, Outcome: o, Message: message,
	}
	if e != nil && d.Name == "" {
		d.Name = e.Name
	}
	r.opts.Decided(d)
}
