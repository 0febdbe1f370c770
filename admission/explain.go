package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/store"
)

// Asked is a store that admits everything and keeps the last question, which shows by which keys and limits a
// Gate decides. It is not asked about a write that nothing limits. It is for one goroutine at a time.
type Asked struct {
	Write  store.Write
	Limits store.Limits
}

var _ store.Store = (*Asked)(nil)

// Decide implements store.Store.
func (a *Asked) Decide(_ context.Context, _ time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	a.Write, a.Limits = w, l
	return store.Decision{Verdict: store.Admit}, nil
}

// Apply applies the patch of an answer to the CREATE of e.
func Apply(patch []byte, e *corev1.Event) error {
	var edits []edit
	if err := json.Unmarshal(patch, &edits); err != nil {
		return fmt.Errorf("decode own patch: %w", err)
	}
	for _, change := range edits {
		switch change.Path {
		case "/message":
			e.Message = change.Value
		case "/metadata/name":
			e.Name = change.Value
		default:
			return fmt.Errorf("own patch changes %s", change.Path)
		}
	}
	return nil
}

// Source is who reports an Event: its component and host, or its reporting
// controller and instance where it has neither.
func Source(e *corev1.Event) (component, host string) { return source(e) }

// Group is the key of the group of e, as written by a user.
func Group(e *corev1.Event, user string) store.Key {
	var h store.Hasher
	return groupKey(&h, objectKey(&h, e.Namespace, e), user)
}

// Plain is the message of an Event without what marks an aggregate.
func Plain(e *corev1.Event) string { return strings.TrimPrefix(e.Message, aggregatePrefix) }

// Occurrences is how often an Event says that it happened, from 1.
func Occurrences(e *corev1.Event) int64 { return occurrences(e) }
