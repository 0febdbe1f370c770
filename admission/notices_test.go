package admission_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// ruleIdentity returns the identity of a policy or quota of a kind. A cluster-scoped one has no namespace.
func ruleIdentity(kind, namespace string) policy.Rule {
	i := policy.Identity{Kind: kind, Namespace: namespace, Name: "p", UID: "p-uid"}
	return policy.Rule{Identity: i, Name: i.String()}
}

// captureCreate returns the arguments with which a CREATE calls the store.
func (r *rig) captureCreate(changes details) admission.CapturingStore {
	r.t.Helper()
	var q admission.CapturingStore
	r.gate.Store, r.gate.MaxWriteInterval = &q, 5*time.Minute
	request := newRequest(r.now, "a", changes)
	if _, err := r.gate.Mutate(r.t.Context(), request); err != nil {
		r.t.Fatal(err)
	}
	if want := admission.GroupKey(request.Object, request.UserInfo.Username); !q.Write.GroupKey.IsZero() && q.Write.GroupKey != want {
		r.t.Errorf("the store is called with group %s, want that of GroupKey, %s", q.Write.GroupKey, want)
	}
	return q
}

// TestNoticeObject checks each kind of bucket, in the order in which the store gets them.
func TestNoticeObject(t *testing.T) {
	t.Parallel()
	const ownPolicy, clusterPolicy, own, cluster = "EventPolicy", "ClusterEventPolicy", "EventQuota", "ClusterEventQuota"
	pod := store.Object{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web", UID: "web-uid"}
	namespace := store.Object{APIVersion: "v1", Kind: "Namespace", Namespace: "default", Name: "default"}
	named := func(kind, namespace string) store.Object {
		return store.Object{APIVersion: "eventquota.io/v1alpha1", Kind: kind, Namespace: namespace, Name: "p", UID: "p-uid"}
	}
	governed := func(kind, namespace string, action policy.Action) *appliedRules {
		p := defaults()
		p.Rule, p.Action = ruleIdentity(kind, namespace), action
		return p
	}
	limited := func(kind, namespace string) *appliedRules {
		p := defaults()
		p.addQuota(
			onePerHour(), onePerHour(policy.KeyNamespace), onePerHour(policy.KeyUser), onePerHour(policy.KeySource),
			onePerHour(policy.KeyInvolvedObject), onePerHour(policy.KeyNamespace, policy.KeyInvolvedObject),
		)
		p.quotas[0].Rule = ruleIdentity(kind, namespace)
		return p
	}
	tenants, admins := named(own, "default"), named(cluster, "")
	for says, tt := range map[string]struct {
		applies *appliedRules
		spam    store.Object // of a source and object; the zero value for none
		quotas  []store.Object
	}{
		"the spam filter of the default":         {defaults(), pod, nil},
		"the spam filter of a namespace":         {governed(ownPolicy, "default", policy.Limit), pod, nil},
		"the spam filter of the cluster":         {governed(clusterPolicy, "", policy.Limit), pod, nil},
		"all limits of a namespace":              {limited(own, "default"), pod, []store.Object{tenants, tenants, tenants, tenants, pod, pod}},
		"all limits of the cluster":              {limited(cluster, ""), pod, []store.Object{admins, namespace, admins, admins, pod, pod}},
		"a policy of a namespace that drops all": {governed(ownPolicy, "default", policy.Drop), store.Object{}, []store.Object{named(ownPolicy, "default")}},
		"a policy of the cluster that drops all": {governed(clusterPolicy, "", policy.Drop), store.Object{}, []store.Object{namespace}},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			q := newRig(t, tt.applies).captureCreate(nil)
			var quotas []store.Object
			for _, b := range q.Limits.Quotas {
				quotas = append(quotas, b.NoticeObject)
			}
			if diff := cmp.Diff(tt.spam, q.Limits.SpamFilter.NoticeObject); diff != "" {
				t.Errorf("spam filter (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.quotas, quotas); diff != "" {
				t.Errorf("quotas (-want +got):\n%s", diff)
			}
		})
	}
}

// allBuckets returns all buckets of limits.
func allBuckets(l *store.Limits) []*store.Bucket {
	all := []*store.Bucket{&l.SpamFilter}
	for i := range l.Quotas {
		all = append(all, &l.Quotas[i])
	}
	return all
}

func TestLimitsOfEachAction(t *testing.T) {
	t.Parallel()
	common := store.Limits{
		SimilarThreshold: 10, Window: 10 * time.Minute, IdenticalWindow: time.Hour,
		WriteInterval: 10 * time.Second, MaxWriteInterval: 5 * time.Minute, KeepMessages: 5,
	}
	filter := store.Bucket{Limit: store.Limit{Burst: 25, Every: 5 * time.Minute}, Name: "spam filter", Policy: "p", LimitID: "p"}
	quotas := func(all ...store.Bucket) store.Limits {
		l := common
		l.Quotas = all
		return l
	}
	limits := func(all ...store.Bucket) store.Limits { // of a policy that limits
		l := quotas(all...)
		l.Merge, l.ReservePerReason, l.SpamFilter = true, 1, filter
		return l
	}
	changed := func(l store.Limits, change func(*store.Limits)) store.Limits {
		change(&l)
		return l
	}
	all := store.Bucket{Limit: store.Limit{Burst: 10, Every: time.Hour}, Name: "all", Policy: "quota"}
	normal, deny, other, silent, combined := all, all, all, all, all
	combined.Combined = true
	normal.Reserve, deny.OnFailure, silent.Silent = 2, store.DenyAll, true
	other.OnFailure, other.Policy, other.Name = store.AdmitAll, "wide", "like it"
	with := func(changes ...func(*appliedRules)) *appliedRules {
		return namedPolicy("p", func(p *appliedRules) {
			for _, change := range changes {
				change(p)
			}
		})
	}
	reserved := func(p *appliedRules) {
		l := limit(10, 1, time.Hour)
		l.Reserve = 2
		p.addQuota(l)
	}
	does := func(action policy.Action) func(*appliedRules) { return func(p *appliedRules) { p.Action = action } }
	for says, tt := range map[string]struct {
		policy  *appliedRules
		details details
		want    store.Limits
	}{
		"Limit has the spam filter of a source and object": {with(), nil, limits()},
		"Limit has quotas too":                             {with(reserved), nil, limits(all)},
		"an Event that is no Warning leaves the reserve":   {with(reserved), details{ofType("Normal")}, limits(normal)},
		"what the store is to do without Redis is each quota's own": {with(reserved, func(p *appliedRules) {
			like := limit(10, 1, time.Hour)
			like.Name = "like it"
			p.quotas = append(p.quotas, quota("wide", like))
			p.quotas[0].OnStoreFailure, p.quotas[1].OnStoreFailure = policy.FailureDeny, policy.FailureAdmit
		}), nil, limits(deny, other)},
		"without notices all buckets are silent": {with(reserved, func(p *appliedRules) {
			p.NoNotices, p.quotas[0].NoNotices = true, true
		}), nil, changed(limits(silent), func(l *store.Limits) { l.SpamFilter.Silent = true })},
		"with combined notices all buckets are": {with(reserved, func(p *appliedRules) {
			p.CombinedNotices, p.quotas[0].CombinedNotices = true, true
		}), nil, changed(limits(combined), func(l *store.Limits) { l.SpamFilter.Combined = true })},
		"a bucket of each reason has combined notices": {with(func(p *appliedRules) { p.addQuota(limit(10, 1, time.Hour, policy.KeyNamespace, policy.KeyReason)) }), nil,
			changed(limits(combined), func(l *store.Limits) {
				l.Quotas[0].Name, l.Quotas[0].LimitID = "each Namespace", "quota/"+limit(10, 1, time.Hour, policy.KeyNamespace, policy.KeyReason).ID
			})},
		"a filter that charges for merges, without a reserve": {with(func(p *appliedRules) {
			p.SpamFilter.ChargeMerged, p.SpamFilter.ReservePerReason = true, 0
		}), nil, changed(limits(), func(l *store.Limits) { l.ChargeMerged, l.ReservePerReason = true, 0 })},
		"neither merging nor a spam filter":         {with(reserved, func(p *appliedRules) { p.Merge.Enabled, p.SpamFilter.Enabled = false, false }), nil, quotas(all)},
		"Drop has one bucket that never has tokens": {with(reserved, does(policy.Drop)), nil, quotas(store.Bucket{Policy: "p"})},
		"Exempt is not asked about":                 {with(reserved, does(policy.Exempt)), nil, store.Limits{}},
		"an interval that is longer than the longest is both": {with(func(p *appliedRules) { p.Merge.WriteInterval = time.Hour }), nil,
			changed(limits(), func(l *store.Limits) { l.WriteInterval, l.MaxWriteInterval = time.Hour, time.Hour })},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			got, keys := newRig(t, tt.policy).captureCreate(tt.details).Limits, map[store.Key]bool{}
			// Objects of notices and fields of keys have their own tests.
			for _, b := range allBuckets(&got) {
				if keys[b.Key] || b.Key.IsZero() != (b.Policy == "") {
					t.Errorf("bucket %q has no key, or the key of another", b.Name)
				}
				keys[b.Key] = true
				b.Key, b.NoticeObject = store.Key{}, store.Object{}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
