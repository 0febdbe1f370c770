package admission_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// only has limits, and nothing else that merges or limits.
func only(limits ...policy.QuotaLimit) func(*applied) {
	return func(p *applied) {
		p.Merge.Enabled, p.SpamFilter.Enabled = false, false
		p.limits(limits...)
	}
}

// hourly is one Event an hour.
func hourly(per ...policy.KeyPart) policy.QuotaLimit { return limit(1, 1, time.Hour, per...) }

// noToken is the answer of an hourly limit.
func noToken(limit string) string {
	return `drop 429 TooManyRequests: limit "` + limit + `" of quota is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	first, second := message("1"), message("2")
	aboutNode := func(namespace string) detail {
		return func(r *admission.Request) {
			modern(r)
			in(namespace)(r)
			r.Object.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "node-1"}
		}
	}
	with := func(limits ...policy.QuotaLimit) func(*applied) {
		return func(p *applied) { p.limits(limits...) }
	}
	runStories(t, []story{
		{says: "an Event that one limit refuses uses up no other", policy: only(hourly(), hourly(policy.KeyUser)), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, user("other")), noToken("all")},
			{time.Hour, create("c", second, user("other")), "admit"},
		}},
		{says: "two limits of one kind have tokens of their own", policy: func(p *applied) {
			burst := limit(2, 1, time.Hour, policy.KeyNamespace)
			burst.Name = "burst"
			only(limit(1, 1, time.Minute, policy.KeyNamespace), burst)(p)
		}, steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second), `drop 429 TooManyRequests: limit "each Namespace" of quota is empty: next token at 2030-03-01T12:01:00Z, in 1m0s`},
			{time.Minute, create("b", second), "admit"},
			{30 * time.Minute, create("c", message("3")), `drop 429 TooManyRequests: limit "burst" of quota is empty: next token at 2030-03-01T13:00:00Z, in 30m0s`},
		}},
		{says: "tokens come back evenly", policy: only(limit(1, 50, time.Second)), steps: []step{
			{0, create("a", first), "admit"},
			{time.Millisecond, create("b", second), `drop 429 TooManyRequests: limit "all" of quota is empty: next token at 2030-03-01T12:00:00Z, in 19ms`},
			{20 * time.Millisecond, create("b", second), "admit"},
		}},
		{says: "what is merged takes no token", policy: with(hourly()), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge 409 " + into + "a, 2 occurrences so far"},
			{0, create("c", second), noToken("all")},
		}},
		{says: "the reserve of a reason is that of the spam filter, and gets past no quota", policy: with(hourly(policy.KeyNamespace)), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, reason("Other")), noToken("each Namespace")},
		}},
		{says: "an object of the cluster has one bucket for all namespaces", policy: only(hourly(policy.KeyInvolvedObject)), steps: []step{
			{0, create("a", aboutNode("default")), "admit"},
			{0, create("b", second, aboutNode("kube-system")), noToken("each InvolvedObject")},
		}},
		{says: "Warnings have a reserve", policy: func(p *applied) {
			l := limit(4, 1, time.Hour)
			l.Reserve = 1
			only(l)(p)
		}, steps: []step{
			{0, create("a", ofType("Normal")), "admit"},
			{0, create("b", ofType("Normal")), "admit"},
			{0, create("c", ofType("Normal")), "admit"},
			{0, create("d", ofType("Normal")), `drop 429 TooManyRequests: limit "all" of quota is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`},
			{0, create("e"), "admit"},
			{0, create("f"), `drop 429 TooManyRequests: limit "all" of quota is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`},
		}},
	})
}

func TestPoliciesShareNoTokens(t *testing.T) {
	t.Parallel()
	one := func(name, reason string) *applied {
		return named(name, func(p *applied) {
			p.Match.Reasons, p.SpamFilter.Burst, p.SpamFilter.Interval, p.SpamFilter.ReservePerReason = []string{reason}, 1, time.Hour, 0
		})
	}
	p := one("night", "")
	p.before = []*policy.Policy{&one("day", "BackOff").Policy}
	r := newRig(t, p)
	const drop = `drop 429 TooManyRequests: spam filter of night is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`
	for i, step := range []step{
		{0, create("a"), "admit"},
		{0, create("b", reason("Pulled")), "admit"},
		{0, create("c", reason("Pulled"), message("2")), drop},
	} {
		if got := step.do(r); got != step.want {
			t.Errorf("step %d: %q, want %q", i+1, got, step.want)
		}
	}
}

// rateLimit is what eventquota convert makes of a limit of EventRateLimit: qps tokens
// come back each second, and nothing else limits or merges.
func rateLimit(qps, burst int, per ...policy.KeyPart) func(*applied) {
	return only(limit(burst, qps, time.Second, per...))
}

func TestRateLimits(t *testing.T) {
	t.Parallel()
	refused := func(limit, next, in string) string {
		return `drop 429 TooManyRequests: limit "` + limit + `" of quota is empty: next token at 2030-03-01T12:` + next + "Z, in " + in
	}
	all := only(
		limit(4, 1, time.Second),
		limit(3, 1, time.Second, policy.KeyNamespace),
		limit(2, 1, time.Second, policy.KeyUser),
		limit(1, 1, time.Second, policy.KeySource, policy.KeyInvolvedObject),
	)
	runStories(t, []story{
		{says: "qps tokens come back each second, and never more than burst", policy: rateLimit(2, 3), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "admit"},
			{0, create("c"), "admit"},
			{0, create("d"), refused("all", "00:00", "500ms")},
			{500 * time.Millisecond, create("d"), "admit"},
			{500 * time.Millisecond, create("e"), refused("all", "00:01", "500ms")},
			{time.Minute, create("f"), "admit"},
			{time.Minute, create("g"), "admit"},
			{time.Minute, create("h"), "admit"},
			{time.Minute, create("i"), refused("all", "01:00", "500ms")},
		}},
		{says: "every limit must give a token, and the first that has none is named", policy: all, steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), refused("each Source", "00:01", "1s")},
			{0, create("c", about("1")), "admit"},
			{0, create("d", about("2")), refused("each User", "00:01", "1s")},
			{0, create("e", about("2"), user("other")), "admit"},
			{0, create("f", about("3"), user("other")), refused("each Namespace", "00:01", "1s")},
			{0, create("g", in("other"), user("other")), "admit"},
			{0, create("h", in("third"), user("third")), refused("all", "00:01", "1s")},
		}},
		{says: "the namespace is the Event's, not that of its object", policy: rateLimit(1, 1, policy.KeyNamespace), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b", modern, elsewhere), refused("each Namespace", "00:01", "1s")},
		}},
		{says: "the groups of a user make no other user", policy: rateLimit(1, 1, policy.KeyUser), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b", groups("others")), refused("each User", "00:01", "1s")},
		}},
		{says: "a dry run takes no token and needs none", policy: rateLimit(1, 1), steps: []step{
			{0, create("a", dryRun), "admit"},
			{0, create("b"), "admit"},
			{0, create("c", dryRun), "admit"},
			{0, update("b", details{}, details{dryRun, count(2)}), "ignore"},
			{0, create("d"), refused("all", "00:01", "1s")},
		}},
		{says: "a recorder's UPDATE takes a token, and without one is left to the settler", policy: rateLimit(1, 2), steps: []step{
			{0, create("a"), "admit"},
			{0, update("a", details{}, details{count(2)}), "admit"},
			{0, update("a", details{count(2)}, details{count(3)}), "merge 409 " + into + "a, 3 occurrences so far"},
			// The settler alone writes while something is pending, so this takes none.
			{time.Second, update("a", details{count(2)}, details{count(4)}), "merge 409 " + into + "a, 4 occurrences so far"},
			{time.Second, create("b"), "admit"},
			{time.Second, create("c"), refused("all", "00:02", "1s")},
		}},
	})
}

func groups(names ...string) detail {
	return func(r *admission.Request) { r.UserInfo.Groups = names }
}

// identified is the identity of a rule of a kind. That of the cluster has no namespace.
func identified(kind, namespace string) policy.Rule {
	i := policy.Identity{Kind: kind, Namespace: namespace, Name: "p", UID: "p-uid"}
	return policy.Rule{Identity: i, Name: i.String()}
}

// TestWhatANoticeIsAbout has each kind of bucket, in the order in which a store is asked.
func TestWhatANoticeIsAbout(t *testing.T) {
	t.Parallel()
	const ownPolicy, clusterPolicy, own, cluster = "EventPolicy", "ClusterEventPolicy", "EventQuota", "ClusterEventQuota"
	pod := store.Object{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web", UID: "web-uid"}
	namespace := store.Object{APIVersion: "v1", Kind: "Namespace", Namespace: "default", Name: "default"}
	named := func(kind, namespace string) store.Object {
		return store.Object{APIVersion: "eventquota.io/v1alpha1", Kind: kind, Namespace: namespace, Name: "p", UID: "p-uid"}
	}
	governed := func(kind, namespace string, action policy.Action) *applied {
		p := defaults()
		p.Rule, p.Action = identified(kind, namespace), action
		return p
	}
	limited := func(kind, namespace string) *applied {
		p := defaults()
		p.limits(
			hourly(), hourly(policy.KeyNamespace), hourly(policy.KeyUser), hourly(policy.KeySource),
			hourly(policy.KeyInvolvedObject), hourly(policy.KeyNamespace, policy.KeyInvolvedObject),
		)
		p.quotas[0].Rule = identified(kind, namespace)
		return p
	}
	tenants, admins := named(own, "default"), named(cluster, "")
	for says, tt := range map[string]struct {
		applies *applied
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
			r := newRig(t, tt.applies)
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
	all := store.Bucket{Limit: store.Limit{Burst: 10, Every: time.Hour}, Name: "all", Policy: "quota"}
	filter := store.Bucket{Limit: store.Limit{Burst: 25, Every: 5 * time.Minute}, Name: "spam filter", Policy: "p"}
	with := func(changes ...func(*applied)) *applied {
		return named("p", func(p *applied) {
			for _, change := range changes {
				change(p)
			}
		})
	}
	reserved := func(p *applied) {
		l := limit(10, 1, time.Hour)
		l.Reserve = 2
		p.limits(l)
	}
	does := func(action policy.Action) func(*applied) { return func(p *applied) { p.Action = action } }
	for says, tt := range map[string]struct {
		policy  *applied
		details details
		want    store.Limits
	}{
		"Limit has the spam filter of a source and object": {with(), nil, limits(func(l *store.Limits) {
			l.Merge, l.ReservePerReason, l.Spam = true, 1, filter
		})},
		"Limit has quotas too": {with(reserved), nil, limits(func(l *store.Limits) {
			l.Merge, l.ReservePerReason, l.Spam, l.Quotas = true, 1, filter, []store.Bucket{all}
		})},
		"an Event that is no Warning leaves the reserve": {with(reserved), details{ofType("Normal")}, limits(func(l *store.Limits) {
			normal := all
			normal.Reserve = 2
			l.Merge, l.ReservePerReason, l.Spam, l.Quotas = true, 1, filter, []store.Bucket{normal}
		})},
		"what the store is to do without Redis is each quota's own": {with(reserved, func(p *applied) {
			p.limits(limit(10, 1, time.Hour, policy.KeyUser))
			p.quotas[0].OnStoreFailure, p.quotas[1].OnStoreFailure = policy.FailureDeny, policy.FailureAdmit
		}), nil, limits(func(l *store.Limits) {
			deny, user := all, all
			deny.OnFailure, user.OnFailure, user.Name = store.DenyAll, store.AdmitAll, "each User"
			l.Merge, l.ReservePerReason, l.Spam, l.Quotas = true, 1, filter, []store.Bucket{deny, user}
		})},
		"without notices all buckets are silent": {with(reserved, func(p *applied) {
			p.Silent, p.quotas[0].Silent = true, true
		}), nil, limits(func(l *store.Limits) {
			spam, quota := filter, all
			spam.Silent, quota.Silent = true, true
			l.Merge, l.ReservePerReason, l.Spam, l.Quotas = true, 1, spam, []store.Bucket{quota}
		})},
		"neither merging nor a spam filter": {with(reserved, func(p *applied) { p.Merge.Enabled, p.SpamFilter.Enabled = false, false }), nil, limits(func(l *store.Limits) {
			l.Quotas = []store.Bucket{all}
		})},
		"Drop has one bucket that never has tokens": {with(reserved, does(policy.Drop)), nil, limits(func(l *store.Limits) {
			l.Quotas = []store.Bucket{{Policy: "p"}}
		})},
		"Exempt is not asked about": {with(reserved, does(policy.Exempt)), nil, store.Limits{}},
		"an interval that is longer than the longest is both": {with(func(p *applied) { p.Merge.WriteInterval = time.Hour }), nil, limits(func(l *store.Limits) {
			l.Merge, l.ReservePerReason, l.Spam, l.WriteInterval, l.MaxWriteInterval = true, 1, filter, time.Hour, time.Hour
		})},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.policy)
			r.gate.MaxWriteInterval = 5 * time.Minute
			var q admission.Asked
			r.gate.Store = &q
			if _, err := r.gate.Mutate(t.Context(), newRequest(r.now, "a", tt.details)); err != nil {
				t.Fatal(err)
			}
			// Keys and what notices are about have tests of their own.
			got := q.Limits
			got.Spam.Key, got.Spam.About = store.Key{}, store.Object{}
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
