package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// pods makes what a kubelet tells about pods. No two pods are the same. It is
// for one goroutine.
type pods struct{ serial int }

// starts is how many Events a kubelet writes while it starts a pod.
const starts = 4

// starting is the n-th of them, from 0.
func starting(serial, n int) *corev1.Event {
	reason, message := "Started", "Started container web"
	switch n {
	case 0:
		reason, message = "Pulling", `Pulling image "registry.example.com/shop/web:1.14.2"`
	case 1:
		reason, message = "Pulled", `Successfully pulled image "registry.example.com/shop/web:1.14.2" in 1.204s. Image size: 71300213 bytes.`
	case 2:
		reason, message = "Created", "Created container: web"
	}
	return podEvent(serial, n, reason, message)
}

// podEvent is an Event about a pod. n tells its name from those of others about
// the pod.
func podEvent(serial, n int, reason, message string) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
		Source:     corev1.EventSource{Component: "kubelet", Host: "node-" + strconv.Itoa(serial%500)},
		Reason:     reason, Message: message, Type: corev1.EventTypeNormal, Count: 1,
	}
	about(e, "web-6d4b75cb6d-"+strconv.Itoa(serial))
	e.Name = fmt.Sprintf("%s.%016x", e.InvolvedObject.Name, 0x17c8f0a1b2c3d000+n)
	e.FirstTimestamp = metav1.Now()
	e.LastTimestamp = e.FirstTimestamp
	return e
}

// creating is the request to create e.
func creating(e *corev1.Event) *admission.Request {
	return &admission.Request{
		Request: policy.Request{
			Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Event"},
			Namespace: e.Namespace, Operation: admissionv1.Create,
		},
		Object: e,
	}
}

// question is what the webhook asks a store about one write in one phase.
type question struct {
	write store.Write
	terms store.Terms
}

// notebook is a store that admits everything and notes what it is asked.
type notebook struct{ merge, take []question }

var _ store.Store = (*notebook)(nil)

// Merge implements store.Store.
func (n *notebook) Merge(_ context.Context, _ time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	n.merge = append(n.merge, question{w, t})
	return store.Decision{}, nil
}

// Take implements store.Store.
func (n *notebook) Take(_ context.Context, _ time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	n.take = append(n.take, question{w, t})
	return store.Decision{}, nil
}

// newGate makes what decides under a policy.
func newGate(p policy.Policy, s store.Store) *admission.Gate {
	governing := admission.Static(p)
	return &admission.Gate{Policies: &governing, Store: s, Now: time.Now}
}

// ask notes what the webhook asks about n Events of each of redisObjects new
// pods, the first Event of every pod first.
func (p *pods) ask(ctx context.Context, governing policy.Policy, n int, event func(serial, n int) *corev1.Event) (*notebook, error) {
	asked := &notebook{}
	gate := newGate(governing, asked)
	for i := range n {
		for pod := range redisObjects {
			r := creating(event(p.serial+pod, i))
			if _, err := gate.Mutate(ctx, r); err != nil {
				return nil, err
			}
			if _, err := gate.Validate(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	p.serial += redisObjects
	return asked, nil
}
