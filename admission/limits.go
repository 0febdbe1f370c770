package admission

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/store"
)

// limits says in the store's words what a policy sets for an Event, and what
// quotas apply to it.
func (g *Gate) limits(q *question, p *policy.Policy, all quotas) store.Limits {
	a, s := &p.Aggregation, &p.SpamFilter
	l := store.Limits{
		MaxEvents:        a.MaxEvents,
		Window:           a.Window,
		RepeatWindow:     a.RepeatWindow,
		WriteInterval:    a.FlushInterval,
		MaxWriteInterval: max(a.FlushInterval, g.MaxWriteInterval),
		KeepMessages:     a.KeepMessages,
		OnFailure:        onFailure(q.gov.OnStoreFailure),
	}
	if p.Action == policy.Drop {
		l.Quotas = []store.Bucket{q.noTokens(p)}
		return l
	}
	if p.Action != policy.Admit {
		l.Merge, l.ReservePerReason, l.ChargeMerged = true, s.ReservePerReason, s.ChargeMerged
		if filter := q.spamFilter(p); filter.SpamFilter {
			l.Quotas = append(l.Quotas, filter)
		} else {
			l.Spam = filter
		}
	}
	if all != nil {
		l.Quotas = q.addQuotas(l.Quotas, all)
	}
	return l
}

func (q *question) addQuotas(to []store.Bucket, all quotas) []store.Bucket {
	for owner, quota := range all {
		to = append(to, q.quota(owner, quota))
	}
	return to
}

// spamFilter is the bucket of a policy's spam filter.
func (q *question) spamFilter(p *policy.Policy) store.Bucket {
	s := &p.SpamFilter
	return store.Bucket{
		Limit:  limit(s.Burst, s.Tokens, s.Interval),
		Key:    bucketKey(&q.hasher, s.ID, s.KeyBy, q.Request),
		Name:   "spam filter",
		Policy: p.Name,
		About:  reportedOn(p, s.KeyBy, q.Request),
		// The API server keeps Events about a namespaced object in its namespace, so
		// a key with both parts is of one source and object, whatever else is in it,
		// and no other key is. Events about an object of the cluster may be in default
		// and in kube-system. As a source writes to one of them only, such a key has a
		// bucket in each.
		SpamFilter: !slices.Contains(s.KeyBy, policy.KeySource) || !slices.Contains(s.KeyBy, policy.KeyInvolvedObject),
	}
}

// quota is the bucket of a policy's quota.
func (q *question) quota(p *policy.Policy, quota *policy.Quota) store.Bucket {
	parts := quotaParts(quota.Type)
	return store.Bucket{
		Limit:  limit(quota.Burst, quota.Tokens, quota.Interval),
		Key:    bucketKey(&q.hasher, quota.ID, parts, q.Request),
		Name:   string(quota.Type) + " quota",
		Policy: p.Name,
		About:  reportedOn(p, parts, q.Request),
	}
}

// noTokens is the bucket of a policy that drops all. It has no name: nobody could
// give it tokens.
func (q *question) noTokens(p *policy.Policy) store.Bucket {
	parts := []policy.KeyPart{policy.KeyNamespace}
	return store.Bucket{
		Key:    bucketKey(&q.hasher, p.Name+" drop", parts, q.Request),
		Policy: p.Name,
		About:  reportedOn(p, parts, q.Request),
	}
}

// limit is a bucket of burst tokens of which tokens come back in each interval.
func limit(burst, tokens int, interval time.Duration) store.Limit {
	return store.Limit{Burst: burst, Every: interval / time.Duration(max(tokens, 1))}
}

// reportedOn is what a notice about the drops of a policy's bucket is about: the
// narrowest object that all its drops have in common.
func reportedOn(p *policy.Policy, parts []policy.KeyPart, r *Request) store.Object {
	i := &p.Identity
	switch {
	case i.Kind == "", slices.Contains(parts, policy.KeyInvolvedObject):
		return reportable(r.Namespace, r.Object)
	case i.Namespace == "" && slices.Contains(parts, policy.KeyNamespace):
		return namespaceObject(r.Namespace)
	}
	return store.Object{
		APIVersion: v1alpha1.GroupName + "/" + v1alpha1.Version, Kind: i.Kind,
		Namespace: i.Namespace, Name: i.Name, UID: string(i.UID),
	}
}

// reportable is what an Event is about, if a notice can be about that. The API server
// takes an Event about an object of another namespace; a notice about that would be
// stored there, where the Event's writer need not have a say.
func reportable(namespace string, e *corev1.Event) store.Object {
	if o := object(e); o.Namespace == namespace || o.Namespace == "" {
		return o
	}
	return namespaceObject(namespace)
}

// namespaceObject is a namespace as notices are about it: they are valid in itself
// only.
func namespaceObject(name string) store.Object {
	return store.Object{APIVersion: "v1", Kind: "Namespace", Namespace: name, Name: name}
}

// object is what an Event is about, as its writer says.
func object(e *corev1.Event) store.Object {
	o := &e.InvolvedObject
	return store.Object{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)}
}

// onFailure takes what is not set for Local.
func onFailure(f policy.OnStoreFailure) store.Failure {
	switch f {
	case policy.FailureAdmit:
		return store.AdmitAll
	case policy.FailureDeny:
		return store.DenyAll
	case policy.FailureLocal:
	}
	return store.Local
}
