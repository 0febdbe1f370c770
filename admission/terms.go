package admission

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// terms says in the store's words what a policy sets for an Event, and what
// quotas apply to it.
func terms(h *store.Hasher, p *policy.Policy, all quotas, e *corev1.Event, user string) store.Terms {
	a, s := &p.Aggregation, &p.SpamFilter
	t := store.Terms{
		MaxEvents:     a.MaxEvents,
		Window:        a.Window,
		RepeatWindow:  a.RepeatWindow,
		FlushInterval: a.FlushInterval,
		KeepMessages:  a.KeepMessages,
		Spam: store.Bucket{
			Limit:  limit(s.Burst, s.Tokens, s.Interval),
			Key:    bucketKey(h, s.ID, s.KeyBy, e, user),
			Name:   "spam filter",
			Policy: p.Name,
		},
		SharedSpam:       spansGroups(s.KeyBy),
		ReservePerReason: s.ReservePerReason,
		ChargeMerged:     s.ChargeMerged,
	}
	switch p.Action {
	case policy.Admit:
		t.Spam.Limit, t.SharedSpam, t.FlushInterval = store.Limit{Burst: 1}, false, 0 // it never runs out, and no UPDATE waits
	case policy.Drop:
		t.Spam.Limit, t.SharedSpam, t.Spam.Name, t.ReservePerReason = store.Limit{}, false, "", 0
		return t
	case policy.Limit:
	}
	for owner, q := range all {
		t.Quotas = append(t.Quotas, store.Bucket{
			Limit:  limit(q.Burst, q.Tokens, q.Interval),
			Key:    bucketKey(h, q.ID, quotaParts(q.Type), e, user),
			Name:   string(q.Type) + " quota",
			Policy: owner.Name,
		})
	}
	return t
}

// spansGroups tells whether one bucket of a spam filter is that of many groups. A
// group is a namespace, a source and an object. The API server keeps Events about
// a namespaced object in its namespace, so a key of Source and InvolvedObject
// names one group, whatever else is in it, and no other key does.
//
// Events about an object of the cluster may be in default and in kube-system. As a
// source writes to one of them only, such a key has a bucket in each.
func spansGroups(keyBy []policy.KeyPart) bool {
	return !slices.Contains(keyBy, policy.KeySource) || !slices.Contains(keyBy, policy.KeyInvolvedObject)
}

// limit is a bucket of burst tokens of which tokens come back in each interval.
func limit(burst, tokens int, interval time.Duration) store.Limit {
	return store.Limit{Burst: burst, Every: interval / time.Duration(max(tokens, 1))}
}

// write says in the store's words what a request writes. The name and message
// are those that will be stored.
func write(h *store.Hasher, r *Request, name, message string) store.Write {
	e := *r.Object
	e.Namespace, e.Message = r.Namespace, message
	group := groupKey(h, &e)
	text, combined := strings.CutPrefix(message, aggregatePrefix)
	w := store.Write{
		Group:     group,
		Exact:     exactKey(h, group, &e),
		Similar:   similarKey(h, group, &e),
		Message:   h.Add(message).Sum(),
		Namespace: r.Namespace,
		Name:      name,
		Count:     occurrences(&e),
		Series:    keepsSeries(&e),
		At:        newest(&e),
		Text:      text,
		Combined:  combined,
		Reason:    e.Reason,
		Subject:   subject(&e),
	}
	if r.OldObject != nil {
		merged, overwritten := mergedBefore(r.OldObject)
		w.Combined = combined || isAggregate(r.OldObject)
		w.Update = &store.Update{
			Recorder:       isRecorders(r, message),
			OldCount:       occurrences(r.OldObject),
			OldMerged:      merged,
			OldOverwritten: overwritten,
			Same:           sameWrite(h, &e),
		}
	}
	return w
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
