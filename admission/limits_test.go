package admission_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// owned is the default policy as a policy of a kind, changed. That of the cluster has no
// namespace.
func owned(kind, namespace string, change func(*policy.Policy)) *policy.Policy {
	p := policy.Default()
	p.Identity = policy.Identity{Kind: kind, Namespace: namespace, Name: "p", UID: "p-uid"}
	p.Name = p.Identity.String()
	if namespace == "" {
		p.Match.Tier = policy.TierAdmin
	}
	change(&p)
	p = p.Identified()
	return &p
}

func hourly(types ...policy.QuotaType) func(*policy.Policy) {
	return func(p *policy.Policy) {
		for _, t := range types {
			p.Quotas = append(p.Quotas, policy.Quota{Type: t, Burst: 3, Tokens: 1, Interval: time.Hour})
		}
	}
}

// TestWhatANoticeIsAbout has each kind of bucket, in the order in which a store is asked.
func TestWhatANoticeIsAbout(t *testing.T) {
	t.Parallel()
	const own, cluster = "EventPolicy", "ClusterEventPolicy"
	pod := store.Object{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web", UID: "web-uid"}
	namespace := store.Object{APIVersion: "v1", Kind: "Namespace", Namespace: "default", Name: "default"}
	tenants := store.Object{APIVersion: "eventquota.io/v1alpha1", Kind: own, Namespace: "default", Name: "p", UID: "p-uid"}
	admins := store.Object{APIVersion: "eventquota.io/v1alpha1", Kind: cluster, Name: "p", UID: "p-uid"}
	keyedBy := func(parts ...policy.KeyPart) func(*policy.Policy) {
		return func(p *policy.Policy) { p.SpamFilter.KeyBy = parts }
	}
	drop := func(p *policy.Policy) { p.Action = policy.Drop }
	for says, tt := range map[string]struct {
		policy *policy.Policy
		spam   store.Object // of a source and object; the zero value for none
		quotas []store.Object
	}{
		"the spam filter of the default":            {named("default", func(*policy.Policy) {}), pod, nil},
		"the spam filter of a namespace":            {owned(own, "default", func(*policy.Policy) {}), pod, nil},
		"the spam filter of the cluster":            {owned(cluster, "", func(*policy.Policy) {}), pod, nil},
		"one for all objects of a namespace's own":  {owned(own, "default", keyedBy(policy.KeySource)), store.Object{}, []store.Object{tenants}},
		"one for all objects of the cluster":        {owned(cluster, "", keyedBy(policy.KeySource)), store.Object{}, []store.Object{admins}},
		"one for all objects of each namespace":     {owned(cluster, "", keyedBy(policy.KeyNamespace)), store.Object{}, []store.Object{namespace}},
		"one for all sources of an object":          {owned(cluster, "", keyedBy(policy.KeyInvolvedObject)), store.Object{}, []store.Object{pod}},
		"all quotas of a namespace":                 {owned(own, "default", hourly(policy.QuotaNamespace, policy.QuotaUser, policy.QuotaSourceAndObject)), pod, []store.Object{tenants, tenants, pod}},
		"all quotas of the cluster":                 {owned(cluster, "", hourly(policy.QuotaServer, policy.QuotaNamespace, policy.QuotaUser, policy.QuotaSourceAndObject)), pod, []store.Object{admins, namespace, admins, pod}},
		"a policy of a namespace that drops all":    {owned(own, "default", drop), store.Object{}, []store.Object{tenants}},
		"a policy of the cluster that drops all":    {owned(cluster, "", drop), store.Object{}, []store.Object{namespace}},
		"the default, shared by sources or objects": {named("default", keyedBy(policy.KeySource)), store.Object{}, []store.Object{pod}},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, policy.Default())
			applied := policy.Governing{Policy: tt.policy}
			if tt.policy.Match.Tier != "" {
				applied.Floor = []*policy.Policy{tt.policy}
			}
			r.gate.Policies = applies(applied)
			var q admission.Asked
			r.gate.Store = &q
			if _, err := r.gate.Mutate(t.Context(), newRequest(r.now, "a", nil)); err != nil {
				t.Fatal(err)
			}
			var quotas []store.Object
			for _, b := range q.Limits.Quotas {
				quotas = append(quotas, b.About)
			}
			if diff := cmp.Diff(tt.spam, q.Limits.Spam.About); diff != "" {
				t.Errorf("spam filter (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.quotas, quotas); diff != "" {
				t.Errorf("quotas (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitsOfEachAction(t *testing.T) {
	t.Parallel()
	common := store.Limits{
		MaxEvents: 10, Window: 10 * time.Minute, RepeatWindow: time.Hour,
		WriteInterval: 10 * time.Second, MaxWriteInterval: 5 * time.Minute, KeepMessages: 5,
	}
	limits := func(change func(*store.Limits)) store.Limits {
		l := common
		change(&l)
		return l
	}
	quota := store.Bucket{Limit: store.Limit{Burst: 3, Every: time.Hour}, Name: "Server quota", Policy: "p"}
	filter := store.Bucket{Limit: store.Limit{Burst: 25, Every: 5 * time.Minute}, Name: "spam filter", Policy: "p"}
	with := func(changes ...func(*policy.Policy)) *policy.Policy {
		return named("p", func(p *policy.Policy) {
			for _, change := range changes {
				change(p)
			}
		})
	}
	server := hourly(policy.QuotaServer)
	for says, tt := range map[string]struct {
		policy *policy.Policy
		want   store.Limits
	}{
		"Limit has the spam filter of a source and object": {with(), limits(func(l *store.Limits) {
			l.Merge, l.ReservePerReason, l.Spam = true, 1, filter
		})},
		"Limit has a spam filter of many beside the quotas, before them": {with(server, func(p *policy.Policy) {
			p.SpamFilter.KeyBy, p.SpamFilter.ChargeMerged = []policy.KeyPart{policy.KeyUser}, true
		}), limits(func(l *store.Limits) {
			shared := filter
			shared.SpamFilter = true
			l.Merge, l.ReservePerReason, l.ChargeMerged, l.Quotas = true, 1, true, []store.Bucket{shared, quota}
		})},
		"Admit has quotas only": {with(server, func(p *policy.Policy) { p.Action = policy.Admit }), limits(func(l *store.Limits) {
			l.Quotas = []store.Bucket{quota}
		})},
		"Drop has one bucket that never has tokens": {with(server, func(p *policy.Policy) { p.Action = policy.Drop }), limits(func(l *store.Limits) {
			l.Quotas = []store.Bucket{{Policy: "p"}}
		})},
		"an interval that is longer than the longest is both": {with(func(p *policy.Policy) { p.Aggregation.FlushInterval = time.Hour }), limits(func(l *store.Limits) {
			l.Merge, l.ReservePerReason, l.Spam, l.WriteInterval, l.MaxWriteInterval = true, 1, filter, time.Hour, time.Hour
		})},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, policy.Default())
			r.gate.MaxWriteInterval = 5 * time.Minute
			r.gate.Policies = applies(policy.Governing{Policy: tt.policy})
			var q admission.Asked
			r.gate.Store = &q
			if _, err := r.gate.Mutate(t.Context(), newRequest(r.now, "a", nil)); err != nil {
				t.Fatal(err)
			}
			// Keys and what notices are about have tests of their own.
			got := q.Limits
			if len(got.Quotas) > 0 || got.Spam != (store.Bucket{}) {
				got.Spam.Key, got.Spam.About = store.Key{}, store.Object{}
			}
			for i := range got.Quotas {
				if got.Quotas[i].Key.IsZero() {
					t.Errorf("bucket %q has no key", got.Quotas[i].Name)
				}
				got.Quotas[i].Key, got.Quotas[i].About = store.Key{}, store.Object{}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOneNoticeForEachPolicyThatDropsAll and namespace, however many objects there are.
func TestOneNoticeForEachPolicyThatDropsAll(t *testing.T) {
	t.Parallel()
	r := newRig(t, policy.Default())
	brake := owned("ClusterEventPolicy", "", func(p *policy.Policy) { p.Action = policy.Drop })
	r.gate.Policies = applies(policy.Governing{Policy: brake})
	for i := range 1000 {
		pod := about("web-" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
		for _, namespace := range []string{"default", "other"} {
			want := `drop 429 TooManyRequests: policy "ClusterEventPolicy p" drops it`
			if said := create("a", pod, in(namespace))(r); said != want {
				t.Fatalf("%q, want %q", said, want)
			}
		}
	}
	want := []string{
		"notice  about default/Namespace/default: 1000, [{BackOff 1000}] of [{kubelet 1000}]",
		"notice  about other/Namespace/other: 1000, [{BackOff 1000}] of [{kubelet 1000}]",
	}
	if diff := cmp.Diff(want, r.pending()); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
}
