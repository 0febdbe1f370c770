package admission

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// Explain returns the policy and quotas of a CREATE, and the limits by which a store would decide it. There are no limits if
// the API server refuses the Event. It calls no store.
func (g *Gate) Explain(ctx context.Context, r *Request) (policy.Resolution, store.Limits, error) {
	q, err := g.prepareEvaluation(ctx, r, true)
	switch {
	case err != nil:
		return policy.Resolution{}, store.Limits{}, err
	case q.invalid:
		return q.resolution, store.Limits{}, nil
	}
	return q.resolution, g.limitsInForce(q), nil
}

// CapturingStore is a store that admits every write and keeps the arguments of the last call: the keys and limits by which
// a Gate decides. A Gate does not call it for a write that nothing merges or limits. It is not safe for concurrent use.
type CapturingStore struct {
	Write  store.Write
	Limits store.Limits
}

// Decide implements store.Store.
func (s *CapturingStore) Decide(_ context.Context, _ time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	s.Write, s.Limits = w, l
	return store.Decision{Verdict: store.Admit}, nil
}

// GroupKey returns the key of the group that e is in when a user writes it.
func GroupKey(e *corev1.Event, user string) store.Key {
	var h store.Hasher
	return groupKey(&h, objectKey(&h, e.Namespace, e), user)
}

// TrimAggregatePrefix returns the message of e without the prefix of combined Events.
func TrimAggregatePrefix(e *corev1.Event) string {
	return strings.TrimPrefix(e.Message, aggregatePrefix)
}
