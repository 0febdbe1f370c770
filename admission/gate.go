// Package admission decides Event writes: it decodes reviews, names what they
// are about, asks the store and answers the API server.
package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// Policies says which policy governs a request. Implementations are safe for
// concurrent use and do not block.
type Policies interface {
	For(r *Request) *policy.Policy
}

// Static is Policies with one policy for all.
type Static policy.Policy

var _ Policies = (*Static)(nil)

// For implements Policies.
func (s *Static) For(*Request) *policy.Policy { return (*policy.Policy)(s) }

// Gate decides Event writes. Its fields are set before the first call and not
// changed after; its methods are safe for concurrent use.
type Gate struct {
	Policies Policies
	Store    store.Store
	// Now is the clock.
	Now func() time.Time
	// Local limits the Events that are admitted for want of a decision.
	Local *rate.Limiter
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
	p, e := g.Policies.For(r), r.Object
	message, name := Truncate(e.Message, p.Message.MaxBytes), e.Name
	if r.DryRun {
		return rewrite(Admitted, e, name, message)
	}
	if name == "" && e.GenerateName != "" {
		name = generate(e.GenerateName)
	}
	if name == "" {
		return rewrite(Ignored, e, name, message) // the API server refuses it
	}
	now := g.Now()
	var h store.Hasher
	d, err := g.Store.Merge(ctx, now, write(&h, now, r, name, message), terms(&h, p, e, r.UserInfo.Username))
	if err != nil {
		return Answer{}, fmt.Errorf("merge: %w", err)
	}
	switch d.Verdict {
	case store.Merge:
		return merged(r, d), nil
	case store.Drop:
		return dropped(p.Name, now, d), nil
	case store.Deny:
		return denied(p.Name), nil
	case store.Aggregate:
		return rewrite(Aggregated, e, name, AggregateMessage(message, keepsSeries(e)))
	case store.Admit:
	}
	return rewrite(Admitted, e, name, message)
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
	p, e, now := g.Policies.For(r), r.Object, g.Now()
	message := Truncate(e.Message, p.Message.MaxBytes)
	var h store.Hasher
	t := terms(&h, p, e, r.UserInfo.Username)
	if r.Operation == admissionv1.Update && undoes(r.OldObject, e, message) {
		t.Spam.Limit = store.Limit{} // no token is ever there for it: it is merged
	}
	d, err := g.Store.Take(ctx, now, write(&h, now, r, e.Name, message), t)
	if err != nil {
		return Answer{}, fmt.Errorf("take tokens: %w", err)
	}
	switch d.Verdict {
	case store.Merge:
		return merged(r, d), nil
	case store.Drop:
		return dropped(p.Name, now, d), nil
	case store.Deny:
		return denied(p.Name), nil
	case store.Admit, store.Aggregate:
	}
	return admit(Admitted), nil
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
