package admission

import (
	"context"
	"iter"
	"math"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// question is a write about which stores are asked, with the name and message
// that it will have.
type question struct {
	*Request

	gov           policy.Governing
	name, message string
}

// quotas are quotas, each with the policy it is of.
type quotas = iter.Seq2[*policy.Policy, *policy.Quota]

// merge asks about a CREATE in the mutating phase. What a policy drops or admits
// need not be remembered for repeats.
func (g *Gate) merge(ctx context.Context, s store.Store, q question, p *policy.Policy, all quotas) (store.Decision, error) {
	if p.Action == policy.Admit {
		return store.Decision{Verdict: store.Admit}, nil
	}
	now, w, t := g.words(q, p, all)
	if p.Action == policy.Drop {
		return q.decided.by(s.Take(ctx, now, w, t))
	}
	return q.decided.by(s.Merge(ctx, now, w, t))
}

// take asks about a write in the validating phase.
func (g *Gate) take(ctx context.Context, s store.Store, q question, p *policy.Policy, all quotas) (store.Decision, error) {
	now, w, t := g.words(q, p, all)
	if p.Action == policy.Admit && len(t.Quotas) == 0 {
		return store.Decision{Verdict: store.Admit}, nil
	}
	return q.decided.by(s.Take(ctx, now, w, t))
}

// words is a question in a store's words.
func (g *Gate) words(q question, p *policy.Policy, all quotas) (time.Time, store.Write, store.Terms) {
	h := &q.hasher
	t := terms(h, p, all, q.Object, q.UserInfo.Username)
	t.OnFailure = onFailure(q.gov.OnStoreFailure)
	if q.Operation == admissionv1.Update && undoes(q.OldObject, q.Object, q.message) {
		t.Spam.Limit = store.Limit{} // no token is ever there for it: it is merged
	}
	w := write(h, q.Request, q.name, q.message)
	// As late as can be: nearly always, writes are decided in the order of their
	// times then.
	now := g.Now()
	if w.At.IsZero() {
		w.At = now
	}
	q.decided = Moment{At: now}
	return now, w, t
}

// cut is a message within the limit of the policy that governs it.
func cut(p *policy.Policy, message string) string {
	if p.Action == policy.Admit {
		return Truncate(message, math.MaxInt)
	}
	return Truncate(message, p.Message.MaxBytes)
}
