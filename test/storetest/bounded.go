package storetest

import (
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Bounded makes a store that holds nothing, with bounds.
type Bounded func(t *testing.T, b store.Bounds) Subject

// RunBounded holds a store to the bounds of each namespace.
func RunBounded(t *testing.T, fresh Bounded) {
	t.Helper()
	few := store.Bounds{Buckets: 2, Registers: 100, SystemExtra: 1}
	for _, s := range buckets() {
		t.Run("buckets: "+s.says, func(t *testing.T) { s.run(t, fresh(t, few)) })
	}
	few = store.Bounds{Buckets: 100, Registers: 3, SystemExtra: 1}
	for _, s := range registers() {
		t.Run("registers: "+s.says, func(t *testing.T) { s.run(t, fresh(t, few)) })
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

// perPod creates an Event about a pod, under a limit for each pod.
func perPod(name, namespace string, details ...detail) action {
	return create(name, append([]detail{in(namespace), pod(name), limitPer("each", namespace+" "+name)}, details...)...)
}

// nineHourLimit puts a write under a limit of the cluster that takes nine hours to fill.
func nineHourLimit(key string, every time.Duration) detail {
	return under(func(l *store.Limits) {
		b := bucket("cluster", int(9*time.Hour/every), every)
		b.Key, b.LimitID = store.KeyOf("quota", "cluster", key), "cluster"
		l.Quotas = append(l.Quotas, b)
	})
}

// anotherAbout makes an Event another one about its pod.
func anotherAbout(f *facts) { f.name, f.message = f.name+"-more", "more" }

func buckets() []story {
	const full = "drop by each (overflow) until 1h0m0s, each has no place"
	fill := step{0, each(perPod("1", "shop"), perPod("2", "shop")), "admit"}
	return []story{
		{says: "beyond the bound, a namespace has one bucket of a limit", steps: []step{
			fill,
			{0, perPod("3", "shop"), "admit, each has no place"},
			{0, each(perPod("3", "shop", anotherAbout), perPod("4", "shop")), full},
			{0, perPod("1", "shop", anotherAbout), "drop by each until 1h0m0s"},
			{us, drain, "each (overflow) notice: 2 (Failed 2); each notice: 1 (Failed 1)"},
		}},
		{says: "each limit has its own", steps: []step{
			fill,
			{0, perPod("3", "shop"), "admit, each has no place"},
			{0, create("4", in("shop"), pod("4"), limitPer("other", "4")), "admit, other has no place"},
			{0, create("5", in("shop"), pod("5"), limitPer("other", "5")), "drop by other (overflow) until 1h0m0s, other has no place"},
			{0, create("6", in("shop"), pod("6"), bound("two")), "admit"},
		}},
		{says: "no other namespace is any the worse", steps: []step{
			fill,
			{0, each(perPod("3", "shop"), perPod("4", "shop")), "admit, each has no place; " + full},
			{0, each(perPod("5", "other"), perPod("6", "other")), "admit"},
			{0, perPod("7", "other"), "admit, each has no place"},
		}},
		{says: "that of the cluster's objects may have more", steps: []step{
			{0, each(perPod("1", "default"), perPod("2", "default"), perPod("3", "default")), "admit"},
			{0, perPod("4", "default"), "admit, each has no place"},
		}},
		{says: "a bucket that is full again frees its place", steps: []step{
			fill,
			{30 * time.Minute, each(perPod("3", "shop"), perPod("4", "shop")), "admit, each has no place; " +
				"drop by each (overflow) until 1h30m0s, each has no place"},
			{80 * time.Minute, each(perPod("4", "shop"), perPod("5", "shop")), "admit"},
			{80 * time.Minute, perPod("6", "shop"), "drop by each (overflow) until 1h30m0s, each has no place"},
		}},
		{says: "one that is in use keeps it", steps: []step{
			fill,
			{time.Hour, each(perPod("1", "shop", anotherAbout), perPod("2", "shop", anotherAbout)), "admit"},
			{90 * time.Minute, perPod("3", "shop"), "admit, each has no place"},
		}},
		{says: "one that namespaces share is each's", steps: []step{
			{0, create("1", in("shop"), limitPer("cluster", "1")), "admit"},
			{0, create("2", in("shop"), pod("2"), limitPer("cluster", "2")), "admit"},
			{0, create("3", in("other"), pod("3"), limitPer("cluster", "1")), "drop by cluster until 1h0m0s"},
			{time.Hour, create("4", in("other"), pod("4"), limitPer("cluster", "1")), "admit"},
			{80 * time.Minute, create("5", in("shop"), pod("5"), limitPer("cluster", "5")), "admit"},
			{80 * time.Minute, create("6", in("shop"), pod("6"), limitPer("cluster", "6")), "admit"},
			{80 * time.Minute, create("7", in("other"), pod("7"), limitPer("cluster", "7")), "admit"},
			{80 * time.Minute, create("8", in("other"), pod("8"), limitPer("cluster", "8")), "admit, cluster has no place"},
		}},
		{says: "one that another namespace has made needs a place in each that uses it", steps: []step{
			{0, each(create("1", in("shop"), nineHourLimit("1", time.Hour)), create("2", in("shop"), pod("2"), nineHourLimit("2", time.Hour))), "admit"},
			{0, each(create("3", in("other"), pod("3"), nineHourLimit("1", time.Minute)), create("4", in("other"), pod("4"), nineHourLimit("2", time.Minute))), "admit"},
			{0, create("5", in("other"), pod("5"), nineHourLimit("5", time.Minute)), "admit, cluster has no place"},
		}},
		{says: "what is refused makes none", steps: []step{
			{0, each(
				create("1", in("shop"), limitPer("each", "1"), bound("none")), create("2", in("shop"), pod("2"), limitPer("each", "2"), bound("none")),
				create("3", in("shop"), pod("3"), limitPer("each", "3"), bound("none")),
			), "drop by none for ever"},
			{0, each(perPod("4", "shop"), perPod("5", "shop")), "admit"},
		}},
	}
}

func registers() []story {
	pods := func(names ...string) action {
		return many(len(names), func(i int) action { return create(names[i], in("shop"), pod(names[i])) })
	}
	const full = "drop by spam filter (overflow) until 1h0m0s, unrecorded"
	fill := step{0, pods("1", "2", "3"), "admit"}
	named := func(l *store.Limits) {
		l.SpamFilter.LimitID, l.SpamFilter.Policy = "spam filter of a policy", "a policy"
	}
	two := func(l *store.Limits) {
		tokens(2, 0)(l)
		named(l)
	}
	return []story{
		{says: "beyond the bound, a namespace has one spam filter of a policy", limits: two, steps: []step{
			fill,
			{0, pods("4", "5"), "admit, unrecorded"},
			{0, pods("5", "6"), full},
			{0, create("1-again", in("shop"), pod("1")), "merge into 1 2"},
			{us, create("1", in("shop"), pod("1"), anotherAbout), "admit"},
			{us, drain, "1 2 (1 merged); spam filter (overflow) notice: 2 (Failed 2)"},
		}},
		{says: "no other namespace is any the worse", limits: two, steps: []step{
			fill,
			{0, pods("4"), "admit, unrecorded"},
			{0, each(create("1", in("other")), create("2", in("other"))), "admit; merge into 1 2"},
			{0, many(4, func(i int) action { return create(string(rune('a'+i)), pod(string(rune('a'+i)))) }), "admit"}, // in default
			{0, create("e", pod("e")), "admit, unrecorded"},
		}},
		{says: "quotas hold", limits: two, steps: []step{
			fill,
			{0, create("4", in("shop"), pod("4"), bound("one")), "admit, unrecorded"},
			{0, create("5", in("shop"), pod("5"), bound("one")), "drop by one until 1h0m0s"},
			{0, pods("6"), "admit, unrecorded"}, // what the quota refused took no token
			{0, pods("7"), full},
		}},
		{says: "an UPDATE is admitted or dropped", limits: two, steps: []step{
			fill,
			{0, update("4", in("shop"), pod("4"), count(2)), "admit, unrecorded"},
			{0, update("4", in("shop"), pod("4"), count(3), stored(2)), "admit, unrecorded"},
			{0, update("4", in("shop"), pod("4"), count(4), stored(3)), full},
			{0, update("4", in("shop"), pod("4"), count(5), stored(3)), full},
			{0, update("4", in("shop"), pod("4"), labelling, stored(3), count(3)), "admit, unrecorded"},
			{0, update("4", in("shop"), pod("4"), labelling, stored(3), count(3), bound("none")), "drop by none for ever (+0)"},
			{us, drain, "spam filter (overflow) notice: 2 (Failed 2)"},
		}},
		{says: "without a spam filter, quotas are all there is", limits: func(l *store.Limits) { l.SpamFilter = store.Bucket{} }, steps: []step{
			fill,
			{0, pods("4", "4", "5"), "admit, unrecorded"},
			{0, create("6", in("shop"), pod("6"), bound("none")), "drop by none for ever"},
		}},
		{says: "one whose time has passed frees its place", limits: two, steps: []step{
			fill,
			{0, pods("4"), "admit, unrecorded"},
			{time.Hour, pods("5"), "admit, unrecorded"},
			{2*time.Hour + 10*time.Minute, pods("4"), "admit"}, // two tokens of an hour each make a register last two hours
			{2*time.Hour + 10*time.Minute, create("4-again", in("shop"), pod("4")), "merge into 4 2"},
		}},
		{says: "one of which something is pending keeps it", limits: two, steps: []step{
			{0, each(pods("1", "2", "3"), create("1-again", in("shop"), pod("1"))), "admit; merge into 1 2"},
			{2*time.Hour + 10*time.Minute, pods("4", "5"), "admit"},
			{2*time.Hour + 10*time.Minute, pods("6"), "admit, unrecorded"},
		}},
		{says: "the notice of a bucket that has none is that of the overflow bucket", limits: named, steps: []step{
			{0, each(perPod("1", "shop"), perPod("2", "shop"), perPod("3", "shop")), "admit"},
			{0, each(perPod("1", "shop", anotherAbout), perPod("2", "shop", anotherAbout)), "drop by each until 1h0m0s"},
			{us, create("1-again", in("shop"), pod("1")), "merge into 1 2"},
			{2 * us, create("1-thrice", in("shop"), pod("1")), "merge into 1 3"},
			{3 * us, drain, "1 3 (2 merged); each (overflow) notice: 2 (Failed 2)"},
		}},
		{says: "that of a limit for all is made in any case", limits: two, steps: []step{
			fill,
			{0, create("1", in("shop"), pod("1"), anotherAbout, bound("none")), "drop by none for ever"},
			{us, create("1-again", in("shop"), pod("1")), "merge into 1 2"},
			{us, drain, "1 2 (1 merged); none notice: 1 (Failed 1)"},
		}},
	}
}
