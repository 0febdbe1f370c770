package admission

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// source is who reports an Event: its component and host. Events written through
// events.k8s.io have none; there the reporting controller and instance do.
func source(e *corev1.Event) (component, host string) {
	if e.Source.Component == "" && e.Source.Host == "" {
		return e.ReportingController, e.ReportingInstance
	}
	return e.Source.Component, e.Source.Host
}

// objectKey names a source and object. The namespace of the Event is part of it
// because an Event about a cluster-scoped object can live in more than one.
func objectKey(h *store.Hasher, namespace string, e *corev1.Event) store.Key {
	component, host := source(e)
	h.Add("object", namespace, component, host)
	return addObject(h, e).Sum()
}

func addObject(h *store.Hasher, e *corev1.Event) *store.Hasher {
	o := &e.InvolvedObject
	return h.Add(o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion)
}

// groupKey names a source and object as one user reports it: anyone may say that
// they are a kubelet. A user's name stays when credentials are renewed; uid and
// extra do not.
func groupKey(h *store.Hasher, object store.Key, user string) store.Key {
	return h.Add("group", user).AddKey(object).Sum()
}

// exactKey names the Events of a source and object that repeat e, whose message is
// given: the fields of client-go's getEventKey. All messages of an aggregate are one,
// so that the stored Event is known whatever its newest one is.
func exactKey(h *store.Hasher, object store.Key, e *corev1.Event, message string) store.Key {
	if strings.HasPrefix(message, aggregatePrefix) {
		message = aggregatePrefix
	}
	return h.Add("exact").AddKey(object).
		Add(e.InvolvedObject.FieldPath, e.Type, e.Reason, message).Sum()
}

// similarKey names the Events of a source and object that are like e but for their
// message: the fields of client-go's EventAggregatorByReasonFunc.
func similarKey(h *store.Hasher, object store.Key, e *corev1.Event) store.Key {
	return h.Add("similar").AddKey(object).
		Add(e.Type, e.Reason, e.ReportingController, e.ReportingInstance).Sum()
}

// bucketKey names a token bucket that is keyed by parts of a write. Its id is
// that of one policy's spam filter or quota: policies share no tokens.
func bucketKey(h *store.Hasher, id string, parts []policy.KeyPart, r *Request) store.Key {
	e := r.Object
	h.Add("bucket", id)
	for _, part := range parts {
		h.Add(string(part))
		switch part {
		case policy.KeySource:
			component, host := source(e)
			h.Add(component, host)
		case policy.KeyInvolvedObject:
			addObject(h, e)
			if o := e.InvolvedObject.Namespace; o != "" && o != r.Namespace {
				h.Add(r.Namespace) // who writes elsewhere shares no bucket with who writes there
			}
		case policy.KeyType:
			h.Add(e.Type)
		case policy.KeyReason:
			h.Add(e.Reason)
		case policy.KeyNamespace:
			h.Add(r.Namespace)
		case policy.KeyUser:
			h.Add(r.UserInfo.Username)
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
