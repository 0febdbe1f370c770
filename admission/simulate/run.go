package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	storagenames "k8s.io/apiserver/pkg/storage/names"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store/memory"
)

// EventTTL is how long an API server keeps an Event after its last write by default.
const EventTTL = time.Hour

// Defaults of serve on a replica without Redis.
const (
	// localRate is the number of Events per second that are admitted without a decision.
	localRate = 100
	// settleRate is the maximum number of writes per second by the settler.
	settleRate       = 100
	maxWriteInterval = time.Minute
)

// Rules are the policies and quotas for a run, in addition to the built-in default.
type Rules struct {
	Cluster    policy.Rules
	Namespaces map[string]policy.Namespace
}

// Options configures a run of a Trace.
type Options struct {
	// Rules are in force all the time.
	Rules Rules
	// Bound selects how many writes a stored Event represents.
	Bound Bound
	// EventTTL is how long the API server keeps an Event after its last write. 0 means the default, EventTTL.
	EventTTL time.Duration
	// Progress, if not nil, is called with the number of writes decided since the last call.
	Progress func(writes int64)
	// Decided, if not nil, is called with every decision, in order.
	Decided func(Decision)
}

// run is the state of one run of a Trace.
type run struct {
	opts   Options
	gate   *admission.Gate
	store  *memory.Store
	api    *apiServer
	result *Result
	files  []File
	// rules records the rules that apply to a write, and by the one that decided.
	rules     *ruleUsage
	decisions *decisionRecorder
	// request is the current admission request.
	request admission.Request
	// now is the simulated time. The settler last ran at lastSettled.
	now, lastSettled time.Time
}

// Run decides all writes of the trace. Its result is deterministic except for generated Event names. Run fails if ctx is
// cancelled or the temporary file cannot be read or written.
func (t *Trace) Run(ctx context.Context, o Options) (*Result, error) {
	t.spool.truncate(t.end) // Events stored by an earlier run
	r := &run{
		opts: o, result: newResult(&t.Input), files: t.Input.Files, rules: newUsage(&o.Rules),
		store: memory.New(memory.Options{Bytes: memory.DefaultBytes}), api: newAPIServer(t.spool, cmp.Or(o.EventTTL, EventTTL)),
	}
	r.decisions = &decisionRecorder{Result: r.result, ranked: newRanked()}
	r.gate = &admission.Gate{
		Policies:         r.rules,
		Store:            r.store,
		AuditStore:       memory.New(memory.Options{Bytes: memory.AuditBytes, NoSettler: true}),
		Observer:         r.decisions,
		Now:              func() time.Time { return r.now },
		MaxWriteInterval: maxWriteInterval,
		UndecidedLimiter: admission.NewLimiter(localRate, time.Second),
	}
	err := r.all(ctx, t)
	r.result.Busiest = r.decisions.ranked.end()
	if err != nil {
		return nil, err
	}
	r.result.finish()
	r.result.Unused, r.result.UnknownMatches = r.rules.unused(), r.rules.unknown
	if !t.Input.Users {
		r.result.UserDependent = r.rules.userDependent()
	}
	return r.result, nil
}

// all simulates all writes of the trace.
func (r *run) all(ctx context.Context, t *Trace) error {
	for w, err := range t.writes(r.opts.Bound, newPreparing(ctx, r.rules.set).prepare) {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.do(ctx, w); err != nil {
			return err
		}
		if r.opts.Progress != nil && !w.Verb.deletes() {
			r.opts.Progress(1)
		}
	}
	return r.drain(ctx)
}

// do advances the clock to the time of a write and simulates it.
func (r *run) do(ctx context.Context, w *write) error {
	if err := r.advance(ctx, w.At); err != nil {
		return err
	}
	r.now = w.Clock
	switch w.Verb { //nolint:exhaustive // the others are updates
	case remove:
		r.api.remove(w.Namespace, w.Name)
		return nil
	case removeAll:
		r.api.removeAll(r.now, w.Namespace)
		return nil
	case create:
		return r.create(ctx, w, w.event)
	}
	old, isStored, err := r.api.get(r.now, w.Namespace, w.Name)
	if err != nil {
		return err
	}
	e := w.event
	switch {
	case old != nil:
		if e, err = w.apply(old); err != nil {
			r.decided(w, old, Unknown, "patch: "+err.Error())
			return nil //nolint:nilerr // it is counted
		}
	case e == nil:
		r.decided(w, nil, Unknown, "")
		return nil
	case w.HistoryKnown: // it has expired
	default:
		old, isStored = before(e), true // it was created before the input begins
	}
	if isStored {
		return r.update(ctx, w, old, e)
	}
	return r.create(ctx, w, e) // a recorder creates an Event that is not found, with the count so far
}

// decide runs one admission phase with the request that the API server would send.
func (r *run) decide(ctx context.Context, phase admission.Phase, w *write, e, old *corev1.Event) admission.Answer {
	r.decisions.refused, r.decisions.audited, r.rules.governing = Refused{}, nil, ""
	if p := w.prepared; p != nil {
		r.rules.note(w.Namespace, &p.governing)
		return r.gate.Decide(ctx, r.gate.MutatePrepared, &p.request)
	}
	w.review(&r.request, e, old)
	return r.gate.Decide(ctx, phase, &r.request)
}

// review fills a with the request that the API server would send.
func (w *write) review(a *admission.Request, e, old *corev1.Event) {
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	resource := metav1.GroupVersionResource{Version: "v1", Resource: "events"}
	a.Reset()
	a.UID, a.Object, a.OldObject = "simulate", e, old
	a.Request = policy.Request{
		Kind: kind, Resource: resource, RequestKind: kind, RequestResource: resource,
		Name: e.Name, Namespace: w.Namespace, Operation: admissionv1.Create, UserInfo: policy.UserInfo(w.User),
	}
	if old != nil {
		a.Operation = admissionv1.Update
	}
	if w.NewAPI {
		a.RequestKind.Group, a.RequestResource.Group = eventsv1.GroupName, eventsv1.GroupName
	}
	if w.Managed {
		a.Options.FieldManager = "client"
	}
	if tooLong(a) {
		a.Object, a.OldObject, a.DecodeError = nil, nil, admission.ErrTooLong
	}
}

// jsonGrowth bounds the length of an Event as JSON, relative to protobuf. A byte takes up to six bytes in JSON.
const jsonGrowth = 8

// tooLong reports whether a review exceeds the length that replicas read.
func tooLong(r *admission.Request) bool {
	size := r.Object.Size() + len(r.UserInfo.Username)
	if r.OldObject != nil {
		size += r.OldObject.Size()
	}
	for _, group := range r.UserInfo.Groups {
		size += len(group)
	}
	if size <= admission.MaxReviewBytes/jsonGrowth {
		return false
	}
	user := authenticationv1.UserInfo{Username: r.UserInfo.Username, UID: r.UserInfo.UID, Groups: r.UserInfo.Groups}
	review, err := json.Marshal(&admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		Name: r.Name, Namespace: r.Namespace, Operation: r.Operation, UserInfo: user,
		Object: runtime.RawExtension{Object: r.Object}, OldObject: runtime.RawExtension{Object: r.OldObject},
	}})
	return err == nil && len(review) > admission.MaxReviewBytes
}

// create decides a CREATE of e and stores it, if it is admitted and its name is free.
func (r *run) create(ctx context.Context, w *write, e *corev1.Event) error {
	e.Namespace = w.Namespace
	a := r.decide(ctx, r.gate.Mutate, w, e, nil)
	if a.Rewritten != nil {
		e = a.Rewritten
	}
	if a.Response.Allowed && e.Name == "" && e.GenerateName != "" { // the webhook could not read it, so the API server generates the name
		e.Name = storagenames.SimpleNameGenerator.GenerateName(e.GenerateName)
	}
	taken, nameless := r.api.has(r.now, e.Namespace, e.Name), e.Name == ""
	switch {
	case !a.Response.Allowed:
		r.decided(w, e, a.Outcome, a.Response.Result.Message)
		if taken || nameless {
			return nil
		}
		return r.api.put(r.now, w, e, true)
	case taken || nameless:
		r.decided(w, e, Failed, "")
		return nil
	}
	r.result.Stored++
	return r.write(w, e, a.Outcome)
}

// update decides an UPDATE and stores it, if it is admitted.
func (r *run) update(ctx context.Context, w *write, old, e *corev1.Event) error {
	if e.Namespace != w.Namespace {
		e.Namespace, w.offset = w.Namespace, -1
	}
	old.Namespace = w.Namespace
	a := r.decide(ctx, r.gate.Validate, w, e, old)
	if !a.Response.Allowed {
		r.decided(w, e, a.Outcome, a.Response.Result.Message)
		return nil
	}
	return r.write(w, e, a.Outcome)
}

// write stores an admitted Event.
func (r *run) write(w *write, e *corev1.Event, o admission.Outcome) error {
	r.result.EtcdWrites.Events++
	r.decided(w, e, o, "")
	return r.api.put(r.now, w, e, false)
}

// decided counts and reports the outcome of a write.
func (r *run) decided(w *write, e *corev1.Event, o admission.Outcome, message string) {
	r.result.Outcomes[o]++
	r.result.Timeline.count(w.At, o)
	if !w.Free && o != Unknown {
		r.result.EtcdWrites.Before++
	}
	if r.opts.Decided == nil {
		return
	}
	d := Decision{
		Time: w.At, Line: w.Line, AuditID: w.ID, Verb: string(w.Verb),
		Namespace: w.Namespace, Name: w.Name, Outcome: o, Message: message,
	}
	if len(r.files) > 1 {
		d.File = r.files[w.File].Name
	}
	if o != Unknown {
		d.Policy, d.Refused, d.Audited = r.rules.governing, r.decisions.refused, r.decisions.audited
	}
	if e != nil {
		d.Name = cmp.Or(d.Name, e.Name)
		d.Controller, d.Host = admission.Source(e)
		d.Type, d.Reason = policy.EventType(e), e.Reason
	}
	r.opts.Decided(d)
}
