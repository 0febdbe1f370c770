package admission

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/store"
)

// CapturingStore is a store that admits everything and keeps the last question, which shows by which keys and limits a
// Gate decides. It is not asked about a write that nothing limits. It is for one goroutine at a time.
type CapturingStore struct {
	Write  store.Write
	Limits store.Limits
}

// Decide implements store.Store.
func (a *CapturingStore) Decide(_ context.Context, _ time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	a.Write, a.Limits = w, l
	return store.Decision{Verdict: store.Admit}, nil
}

// GroupKey is the key of the group of e, as written by a user.
func GroupKey(e *corev1.Event, user string) store.Key {
	var h store.Hasher
	return groupKey(&h, objectKey(&h, e.Namespace, e), user)
}

// TrimAggregatePrefix is the message of an Event without what marks an aggregate.
func TrimAggregatePrefix(e *corev1.Event) string {
	return strings.TrimPrefix(e.Message, aggregatePrefix)
}
