package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// Inquiry is what a store would be asked about a CREATE, if it came: what applies
// to it, and the keys under which the store knows of it.
type Inquiry struct {
	Governing policy.Governing
	Write     store.Write
	Limits    store.Limits
}

// Inquire finds out what a store would be asked about the CREATE of an Event that
// has a name. It asks none. For what would become of it, let Mutate decide by a
// copy of the store.
func (g *Gate) Inquire(ctx context.Context, r *Request) (Inquiry, error) {
	gov, err := g.governing(ctx, r)
	if err != nil {
		return Inquiry{}, err
	}
	q := g.newQuestion(r, gov, true)
	return Inquiry{Governing: gov, Write: *q.write(), Limits: g.limits(q, gov.Policy, q.quotas())}, nil
}

// Apply does to e what the patch of an answer to its CREATE says.
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

// Group is the key of all that a store knows of the Events that a user writes of the
// source of e about its object in its namespace.
func Group(e *corev1.Event, user string) store.Key {
	var h store.Hasher
	return groupKey(&h, objectKey(&h, e.Namespace, e), user)
}

// Plain is the message of an Event without what marks an aggregate.
func Plain(e *corev1.Event) string { return strings.TrimPrefix(e.Message, aggregatePrefix) }

// Occurrences is how often an Event says that it happened, from 1.
func Occurrences(e *corev1.Event) int64 { return occurrences(e) }

// QuotaParts are the parts of an Event by which a type of quota has a bucket each.
func QuotaParts(t policy.QuotaType) []policy.KeyPart { return quotaParts(t) }
