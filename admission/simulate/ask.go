package simulate

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// request is what the API server would ask the webhook about.
func (r *run) request(w *write, op admissionv1.Operation, e, old *corev1.Event) *admission.Request {
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	resource := metav1.GroupVersionResource{Version: "v1", Resource: "events"}
	a := &admission.Request{
		Request: policy.Request{
			Kind: kind, Resource: resource, RequestKind: kind, RequestResource: resource,
			Name: e.Name, Namespace: w.namespace, Operation: op, UserInfo: r.trace.users[w.user],
		},
		UID: "simulate", Object: e, OldObject: old,
	}
	if w.newAPI {
		a.RequestKind.Group, a.RequestResource.Group = newGroup, newGroup
	}
	return a
}

// create takes a CREATE of e through both phases and stores it, if they let it.
func (r *run) create(ctx context.Context, w *write, e *corev1.Event) error {
	e.Namespace = w.namespace
	a := r.gate.Decide(ctx, r.gate.Mutate, r.request(w, admissionv1.Create, e, nil))
	if !a.Response.Allowed {
		return r.refuse(w, e, a)
	}
	outcome := a.Outcome
	sent := e
	if len(a.Response.Patch) > 0 {
		e = e.DeepCopy()
		if err := edit(e, a.Response.Patch); err != nil {
			return err
		}
	}
	a = r.gate.Decide(ctx, r.gate.Validate, r.request(w, admissionv1.Create, e, nil))
	if !a.Response.Allowed {
		return r.refuse(w, sent, a)
	}
	if a.Outcome != admission.Admitted {
		outcome = a.Outcome
	}
	if e.Name == "" || r.api.has(r.now, e.Namespace, e.Name) {
		r.decided(w, e, Failed, "")
		return nil
	}
	r.result.EtcdWrites.Events++
	r.result.Stored++
	r.decided(w, e, Outcome(outcome), "")
	return r.api.put(r.now, e)
}

// update takes an UPDATE through its phase and stores it, if that lets it.
func (r *run) update(ctx context.Context, w *write, old, e *corev1.Event) error {
	e.Namespace, old.Namespace = w.namespace, w.namespace
	a := r.gate.Decide(ctx, r.gate.Validate, r.request(w, admissionv1.Update, e, old))
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
	if e.Name == "" || r.api.has(r.now, e.Namespace, e.Name) {
		return nil
	}
	return r.api.refuse(r.now, w, e)
}

// edit does to e what a mutating webhook's JSON patch says.
func edit(e *corev1.Event, patch []byte) error {
	var edits []struct{ Op, Path, Value string }
	if err := json.Unmarshal(patch, &edits, json.MatchCaseInsensitiveNames(true)); err != nil {
		return fmt.Errorf("decode the webhook's patch: %w", err)
	}
	for _, change := range edits {
		switch change.Path {
		case "/message":
			e.Message = change.Value
		case "/metadata/name":
			e.Name = change.Value
		default:
			return fmt.Errorf("the webhook's patch changes %s, which is not simulated", change.Path)
		}
	}
	return nil
}
