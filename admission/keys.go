package admission

import (
	"cmp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// source is who tells an Event: its component and host. Events written through
// events.k8s.io have none; there the reporting controller and instance tell.
func source(e *corev1.Event) (component, host string) {
	if e.Source.Component == "" && e.Source.Host == "" {
		return e.ReportingController, e.ReportingInstance
	}
	return e.Source.Component, e.Source.Host
}

// groupKey names a source and object. The namespace is part of it because an
// Event about a cluster-scoped object can live in more than one.
func groupKey(h *store.Hasher, e *corev1.Event) store.Key {
	component, host := source(e)
	o := &e.InvolvedObject
	return h.Add("group", e.Namespace, component, host).
		Add(o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion).Sum()
}

// exactKey names the Events that repeat e: the fields of client-go's
// getEventKey.
func exactKey(h *store.Hasher, group store.Key, e *corev1.Event) store.Key {
	return h.Add("exact").AddKey(group).
		Add(e.InvolvedObject.FieldPath, e.Type, e.Reason, e.Message).Sum()
}

// similarKey names the Events that are like e but for their message: the
// fields of client-go's EventAggregatorByReasonFunc.
func similarKey(h *store.Hasher, group store.Key, e *corev1.Event) store.Key {
	return h.Add("similar").AddKey(group).
		Add(e.Type, e.Reason, e.ReportingController, e.ReportingInstance).Sum()
}

// bucketKey names a token bucket that is keyed by parts of an Event. Its id is
// that of one policy's spam filter or quota: policies share no tokens.
func bucketKey(h *store.Hasher, id string, parts []policy.KeyPart, e *corev1.Event, user string) store.Key {
	h.Add("bucket", id)
	for _, part := range parts {
		h.Add(string(part))
		switch part {
		case policy.KeySource:
			component, host := source(e)
			h.Add(component, host)
		case policy.KeyInvolvedObject:
			o := &e.InvolvedObject
			h.Add(o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion)
		case policy.KeyType:
			h.Add(e.Type)
		case policy.KeyReason:
			h.Add(e.Reason)
		case policy.KeyNamespace:
			h.Add(e.Namespace)
		case policy.KeyUser:
			h.Add(user)
		}
	}
	return h.Sum()
}

// quotaParts are what each type of quota is keyed by.
func quotaParts(t policy.QuotaType) []policy.KeyPart {
	switch t {
	case policy.QuotaNamespace:
		return []policy.KeyPart{policy.KeyNamespace}
	case policy.QuotaUser:
		return []policy.KeyPart{policy.KeyUser}
	case policy.QuotaSourceAndObject:
		return []policy.KeyPart{policy.KeySource, policy.KeyInvolvedObject}
	case policy.QuotaServer:
	}
	return nil
}

// sameWrite names the content of an UPDATE as far as a recorder moves it.
func sameWrite(h *store.Hasher, e *corev1.Event) store.Key {
	h.Add("update", e.Name, strconv.Itoa(int(e.Count)), e.Message)
	h.Add(e.FirstTimestamp.UTC().Format(time.RFC3339Nano), e.LastTimestamp.UTC().Format(time.RFC3339Nano))
	if s := e.Series; s != nil {
		h.Add(strconv.Itoa(int(s.Count)), s.LastObservedTime.UTC().Format(time.RFC3339Nano))
	}
	return h.Sum()
}

// occurrences is how often e says that it happened. Every count on the wire is
// absolute; one that is absent stands for 1.
func occurrences(e *corev1.Event) int64 {
	n := e.Count
	if e.Series != nil {
		n = max(n, e.Series.Count)
	}
	return int64(max(n, 1))
}

// keepsSeries tells whether e counts in series.count, as Events written
// through events.k8s.io do.
func keepsSeries(e *corev1.Event) bool {
	return e.Series != nil || !e.EventTime.IsZero()
}

// newest is when the newest occurrence of e happened, by its writer's clock; zero where
// it does not say.
func newest(e *corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	if e.EventTime.After(at) {
		at = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}

func subject(e *corev1.Event) store.Subject {
	component, host := source(e)
	o := &e.InvolvedObject
	return store.Subject{
		APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace,
		Name: o.Name, UID: string(o.UID),
		Component: cmp.Or(component, "unknown"), Host: host,
	}
}
