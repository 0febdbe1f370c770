package storetest

import (
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Bounded makes an empty store with the given bounds.
type Bounded func(t *testing.T, b store.Bounds) Subject

// RunBounded checks the bounds of each namespace.
func RunBounded(t *testing.T, fresh Bounded) {
	t.Helper()
	few := store.Bounds{Buckets: 2, Registers: 100, SystemExtra: 1}
	for _, s := range buckets() {
		t.Run("buckets: "+s.name, func(t *testing.T) { s.run(t, fresh(t, few)) })
	}
	few = store.Bounds{Buckets: 100, Registers: 3, SystemExtra: 1}
	for _, s := range registers() {
		t.Run("registers: "+s.name, func(t *testing.T) { s.run(t, fresh(t, few)) })
	}
}

// limitPer puts a write under a limit of one token an hour for each key.
func limitPer(limit, key string) detail {
	return under(func(l *store.Limits) {
		b := bucket(limit, 1, time.Hour)
		b.Key, b.LimitID = store.KeyOf("quota", limit, key), limit
		l.Quotas = append(l.Quotas, b)
	})
}

// perPod creates an Event about a pod, under a limit with a bucket for each pod.
func perPod(name, namespace string, details ...detail) action {
	return create(name, append([]detail{in(namespace), pod(name), limitPer("each", namespace+" "+name)}, details...)...)
}

// nineHourLimit puts a write under a limit of the cluster whose buckets take nine hours to fill.
func nineHourLimit(key string, every time.Duration) detail {
	return under(func(l *store.Limits) {
		b := bucket("cluster", int(9*time.Hour/every), every)
		b.Key, b.LimitID = store.KeyOf("quota", "cluster", key), "cluster"
		l.Quotas = append(l.Quotas, b)
	})
}

// anotherMessage makes another Event about the same pod.
func anotherMessage(f *facts) { f.name, f.message = f.name+"-more", "more" }

func buckets() []story {
	const full = "drop by each (overflow) until 1h0m0s, each overflows"
	fill := step{0, each(perPod("1", "shop"), perPod("2", "shop")), "admit"}
	return []story{
		{name: "beyond the bound, a namespace has one bucket of a limit", steps: []step{
			fill,
			{0, perPod("3", "shop"), "admit, each overflows"},
			{0, each(perPod("3", "shop", anotherMessage), perPod("4", "shop")), full},
			{0, perPod("1", "shop", anotherMessage), "drop by each until 1h0m0s"},
			{us, drain, "each (overflow) notice: 2 (Failed 2); each notice: 1 (Failed 1)"},
		}},
		{name: "each limit has its own overflow bucket", steps: []step{
			fill,
			{0, perPod("3", "shop"), "admit, each overflows"},
			{0, create("4", in("shop"), pod("4"), limitPer("other", "4")), "admit, other overflows"},
			{0, create("5", in("shop"), pod("5"), limitPer("other", "5")), "drop by other (overflow) until 1h0m0s, other overflows"},
			{0, create("6", in("shop"), pod("6"), withQuota("two")), "admit"},
		}},
		{name: "other namespaces are not affected", steps: []step{
			fill,
			{0, each(perPod("3", "shop"), perPod("4", "shop")), "admit, each overflows; " + full},
			{0, each(perPod("5", "other"), perPod("6", "other")), "admit"},
			{0, perPod("7", "other"), "admit, each overflows"},
		}},
		{name: "the namespace of cluster-scoped objects has a higher bound", steps: []step{
			{0, each(perPod("1", "default"), perPod("2", "default"), perPod("3", "default")), "admit"},
			{0, perPod("4", "default"), "admit, each overflows"},
		}},
		{name: "a bucket that is full again does not count", steps: []step{
			fill,
			{30 * time.Minute, each(perPod("3", "shop"), perPod("4", "shop")), "admit, each overflows; " +
				"drop by each (overflow) until 1h30m0s, each overflows"},
			{80 * time.Minute, each(perPod("4", "shop"), perPod("5", "shop")), "admit"},
			{80 * time.Minute, perPod("6", "shop"), "drop by each (overflow) until 1h30m0s, each overflows"},
		}},
		{name: "a bucket that is in use counts", steps: []step{
			fill,
			{time.Hour, each(perPod("1", "shop", anotherMessage), perPod("2", "shop", anotherMessage)), "admit"},
			{90 * time.Minute, perPod("3", "shop"), "admit, each overflows"},
		}},
		{name: "a shared bucket counts in each namespace that uses it", steps: []step{
			{0, create("1", in("shop"), limitPer("cluster", "1")), "admit"},
			{0, create("2", in("shop"), pod("2"), limitPer("cluster", "2")), "admit"},
			{0, create("3", in("other"), pod("3"), limitPer("cluster", "1")), "drop by cluster until 1h0m0s"},
			{time.Hour, create("4", in("other"), pod("4"), limitPer("cluster", "1")), "admit"},
			{80 * time.Minute, create("5", in("shop"), pod("5"), limitPer("cluster", "5")), "admit"},
			{80 * time.Minute, create("6", in("shop"), pod("6"), limitPer("cluster", "6")), "admit"},
			{80 * time.Minute, create("7", in("other"), pod("7"), limitPer("cluster", "7")), "admit"},
			{80 * time.Minute, create("8", in("other"), pod("8"), limitPer("cluster", "8")), "admit, cluster overflows"},
		}},
		{name: "a bucket that another namespace has created counts for the one that uses it", steps: []step{
			{0, each(create("1", in("shop"), nineHourLimit("1", time.Hour)), create("2", in("shop"), pod("2"), nineHourLimit("2", time.Hour))), "admit"},
			{0, each(create("3", in("other"), pod("3"), nineHourLimit("1", time.Minute)), create("4", in("other"), pod("4"), nineHourLimit("2", time.Minute))), "admit"},
			{0, create("5", in("other"), pod("5"), nineHourLimit("5", time.Minute)), "admit, cluster overflows"},
		}},
		{name: "a refused Event creates no bucket", steps: []step{
			{0, each(
				create("1", in("shop"), limitPer("each", "1"), withQuota("none")), create("2", in("shop"), pod("2"), limitPer("each", "2"), withQuota("none")),
				create("3", in("shop"), pod("3"), limitPer("each", "3"), withQuota("none")),
			), "drop by none for ever"},
			{0, each(perPod("4", "shop"), perPod("5", "shop")), "admit"},
		}},
	}
}

func registers() []story {
	pods := func(names ...string) action {
		return many(len(names), func(i int) action { return create(names[i], in("shop"), pod(names[i])) })
	}
	const full = "drop by spam filter (overflow) until 1h0m0s, untracked"
	fill := step{0, pods("1", "2", "3"), "admit"}
	named := func(l *store.Limits) {
		l.SpamFilter.LimitID, l.SpamFilter.Policy = "spam filter of a policy", "a policy"
	}
	two := func(l *store.Limits) {
		tokens(2, 0)(l)
		named(l)
	}
	return []story{
		{name: "beyond the bound, a namespace has one spam filter of a policy", limits: two, steps: []step{
			fill,
			{0, pods("4", "5"), "admit, untracked"},
			{0, pods("5", "6"), full},
			{0, create("1-again", in("shop"), pod("1")), "merge into 1 2"},
			{us, create("1", in("shop"), pod("1"), anotherMessage), "admit"},
			{us, drain, "1 2 (1 merged); spam filter (overflow) notice: 2 (Failed 2)"},
		}},
		{name: "other namespaces are not affected", limits: two, steps: []step{
			fill,
			{0, pods("4"), "admit, untracked"},
			{0, each(create("1", in("other")), create("2", in("other"))), "admit; merge into 1 2"},
			{0, many(4, func(i int) action { return create(string(rune('a'+i)), pod(string(rune('a'+i)))) }), "admit"}, // in default
			{0, create("e", pod("e")), "admit, untracked"},
		}},
		{name: "quotas still apply", limits: two, steps: []step{
			fill,
			{0, create("4", in("shop"), pod("4"), withQuota("one")), "admit, untracked"},
			{0, create("5", in("shop"), pod("5"), withQuota("one")), "drop by one until 1h0m0s"},
			{0, pods("6"), "admit, untracked"}, // the Event that the quota refused took no token
			{0, pods("7"), full},
		}},
		{name: "an UPDATE is admitted or dropped", limits: two, steps: []step{
			fill,
			{0, update("4", in("shop"), pod("4"), count(2)), "admit, untracked"},
			{0, update("4", in("shop"), pod("4"), count(3), stored(2)), "admit, untracked"},
			{0, update("4", in("shop"), pod("4"), count(4), stored(3)), full},
			{0, update("4", in("shop"), pod("4"), count(5), stored(3)), full},
			{0, update("4", in("shop"), pod("4"), notByRecorder, stored(3), count(3)), "admit, untracked"},
			{0, update("4", in("shop"), pod("4"), notByRecorder, stored(3), count(3), withQuota("none")), "drop by none for ever (+0)"},
			{us, drain, "spam filter (overflow) notice: 2 (Failed 2)"},
		}},
		{name: "without a spam filter, only quotas apply", limits: func(l *store.Limits) { l.SpamFilter = store.Bucket{} }, steps: []step{
			fill,
			{0, pods("4", "4", "5"), "admit, untracked"},
			{0, create("6", in("shop"), pod("6"), withQuota("none")), "drop by none for ever"},
		}},
		{name: "an expired register does not count", limits: two, steps: []step{
			fill,
			{0, pods("4"), "admit, untracked"},
			{time.Hour, pods("5"), "admit, untracked"},
			{2*time.Hour + 10*time.Minute, pods("4"), "admit"}, // two tokens of an hour each make a register last two hours
			{2*time.Hour + 10*time.Minute, create("4-again", in("shop"), pod("4")), "merge into 4 2"},
		}},
		{name: "a register with a pending write counts", limits: two, steps: []step{
			{0, each(pods("1", "2", "3"), create("1-again", in("shop"), pod("1"))), "admit; merge into 1 2"},
			{2*time.Hour + 10*time.Minute, pods("4", "5"), "admit"},
			{2*time.Hour + 10*time.Minute, pods("6"), "admit, untracked"},
		}},
		{name: "a bucket whose notice has no register uses the notice of the overflow bucket", limits: named, steps: []step{
			{0, each(perPod("1", "shop"), perPod("2", "shop"), perPod("3", "shop")), "admit"},
			{0, each(perPod("1", "shop", anotherMessage), perPod("2", "shop", anotherMessage)), "drop by each until 1h0m0s"},
			{us, create("1-again", in("shop"), pod("1")), "merge into 1 2"},
			{2 * us, create("1-thrice", in("shop"), pod("1")), "merge into 1 3"},
			{3 * us, drain, "1 3 (2 merged); each (overflow) notice: 2 (Failed 2)"},
		}},
		{name: "a limit with a single bucket always has a notice", limits: two, steps: []step{
			fill,
			{0, create("1", in("shop"), pod("1"), anotherMessage, withQuota("none")), "drop by none for ever"},
			{us, create("1-again", in("shop"), pod("1")), "merge into 1 2"},
			{us, drain, "1 2 (1 merged); none notice: 1 (Failed 1)"},
		}},
	}
}
