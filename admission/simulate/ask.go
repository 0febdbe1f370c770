package simulate

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// decide asks a phase what the API server would ask the webhook.
func (r *run) decide(ctx context.Context, phase admission.Phase, w *write, e, old *corev1.Event) admission.Answer {
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	resource := metav1.GroupVersionResource{Version: "v1", Resource: "events"}
	a := &r.asked
	a.Request = policy.Request{
		Kind: kind, Resource: resource, RequestKind: kind, RequestResource: resource,
		Name: e.Name, Namespace: w.namespace, Operation: admissionv1.Create, UserInfo: r.trace.users[w.user],
	}
	a.UID, a.Object, a.OldObject, a.Options = "simulate", e, old, admission.WriteOptions{}
	if old != nil {
		a.Operation = admissionv1.Update
	}
	if w.newAPI {
		a.RequestKind.Group, a.RequestResource.Group = newGroup, newGroup
	}
	if w.managed {
		a.Options.FieldManager = "somebody"
	}
	return r.gate.Decide(ctx, phase, a)
}

// create decides a CREATE of e and stores it, if that lets it.
func (r *run) create(ctx context.Context, w *write, e *corev1.Event) error {
	e.Namespace = w.namespace
	a := r.decide(ctx, r.gate.Mutate, w, e, nil)
	if !a.Response.Allowed {
		return r.refuse(w, e, a)
	}
	if len(a.Response.Patch) > 0 {
		e = e.DeepCopy()
		if err := admission.Apply(a.Response.Patch, e); err != nil {
			return err
		}
	}
	if e.Name == "" || r.api.has(r.now, e.Namespace, e.Name) {
		r.decided(w, e, Failed, "")
		return nil
	}
	r.result.EtcdWrites.Events++
	r.result.Stored++
	r.decided(w, e, Outcome(a.Outcome), "")
	return r.api.put(r.now, e)
}

// update decides an UPDATE and stores it, if that lets it.
func (r *run) update(ctx context.Context, w *write, old, e *corev1.Event) error {
	e.Namespace, old.Namespace = w.namespace, w.namespace
	a := r.decide(ctx, r.gate.Validate, w, e, old)
	if !a.Response.Allowed {
		r.decided(w, e, Outcome(a.Outcome), a.Response.Result.Message)
		return nil
	}
	r.result.EtcdWrites.Events++
	r.decided(w, e, Outcome(a.Outcome), "")
	return r.api.put(r.now, e)
}

// refuse notes a CREATE that was refused.
func (r *run) refuse(w *write, e *corev1.Event, a admission.Answer) error {
	r.decided(w, e, Outcome(a.Outcome), a.Response.Result.Message)
	if e.Name == "" {
		return nil
	}
	return r.api.refuse(r.now, w, e)
}
