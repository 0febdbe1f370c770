package explain

import (
	"context"
	"fmt"
	"net/url"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/store/rules"
)

// peeked is what a store knows, and how metrics call it.
type peeked struct {
	rules.State

	name string
}

// ask asks a replica what its store knows.
func ask(ctx context.Context, r *replicas.Replica, groups, levels []store.Key) (peeked, error) {
	query := url.Values{}
	for _, key := range groups {
		query.Add("group", key.String())
	}
	for _, key := range levels {
		query.Add("level", key.String())
	}
	var answer peekAnswer
	if err := r.Get(ctx, "/explain", query, &answer); err != nil {
		return peeked{}, err
	}
	state, err := answer.state()
	if err != nil {
		return peeked{}, fmt.Errorf("explain: the answer is not what a replica says: %w", err)
	}
	return peeked{state, answer.Store}, nil
}

// next asks about one more Event like c, of a writer and with a message, which comes at
// a moment under a name that nobody has used.
func (x *explainer) next(writer policy.UserInfo, c *oneMore, message string, at time.Time) *admission.Request {
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	resource := metav1.GroupVersionResource{Version: "v1", Resource: "events"}
	r := &admission.Request{
		Request: policy.Request{
			Kind: kind, Resource: resource, RequestKind: kind, RequestResource: resource,
			Namespace: x.namespace, Operation: admissionv1.Create, UserInfo: writer,
		},
		UID: "explain",
	}
	e := *c.like
	e.ObjectMeta = metav1.ObjectMeta{Namespace: x.namespace, Name: "explain." + rand.String(20)}
	e.Type, e.Reason, e.Message = c.eventType, c.reason, message
	e.Count, e.Series, e.Related = 1, nil, nil
	if e.EventTime.IsZero() {
		e.FirstTimestamp, e.LastTimestamp = metav1.NewTime(at), metav1.NewTime(at)
	} else { // written through events.k8s.io
		r.RequestKind.Group, r.RequestResource.Group = "events.k8s.io", "events.k8s.io"
		e.EventTime, e.Count = metav1.NewMicroTime(at), 0
	}
	r.Name, r.Object = e.Name, &e
	return r
}

// inquire finds out what a store is asked about one more Event like c.
func (x *explainer) inquire(ctx context.Context, s *sourceEvents, c *oneMore) (admission.Inquiry, error) {
	gate := x.gate(nil, time.Now())
	return gate.Inquire(ctx, x.next(s.writer, c, admission.Plain(c.like), time.Now()))
}

// foresee says what would become of one more Event like c, by a store that knows what is
// in state. It asks a copy of it.
func (x *explainer) foresee(ctx context.Context, state rules.State, s *sourceEvents, c *oneMore, message string) (*explainedOutcome, error) {
	a, err := x.gate(memory.From(state), state.At).Mutate(ctx, x.next(s.writer, c, message, state.At))
	if err != nil {
		return nil, err
	}
	o := &explainedOutcome{Outcome: string(a.Outcome)}
	if !a.Response.Allowed {
		o.Because = a.Response.Result.Message
	}
	return o, nil
}

// another is a message that no Event has.
func another() string { return "explain " + rand.String(20) }

// gate decides by a store, at one moment.
func (x *explainer) gate(s store.Store, at time.Time) *admission.Gate {
	return &admission.Gate{
		Policies: policy.InForce(x.policies),
		Store:    s, Now: func() time.Time { return at }, Complaints: &x.complaints,
	}
}

// alone is s with one group and all quotas: what decides about that.
func alone(s *rules.State, group store.Key) rules.State {
	one := rules.State{At: s.At, Groups: map[store.Key]*rules.Group{}, Levels: s.Levels}
	if g := s.Groups[group]; g != nil {
		one.Groups[group] = g
	}
	return one
}

// storedEvent finds a stored Event by its name.
func (s *sourceEvents) storedEvent(name string) *corev1.Event {
	for _, e := range s.events {
		if e.Name == name {
			return e
		}
	}
	return nil
}
