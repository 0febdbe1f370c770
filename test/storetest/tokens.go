package storetest

import (
	"fmt"
	"time"

	"github.com/eventquota/eventquota/store"
)

// tokens gives the spam filter burst tokens, which refill one an hour. Events with different messages are not combined.
func tokens(burst, reserve int) func(*store.Limits) {
	return func(l *store.Limits) {
		l.SimilarThreshold, l.ReservePerReason = 100, reserve
		l.SpamFilter.Limit = store.Limit{Burst: burst, Every: time.Hour}
	}
}

// charged makes merged CREATEs take tokens, too.
func charged(change func(*store.Limits)) func(*store.Limits) {
	return func(l *store.Limits) {
		change(l)
		l.ChargeMerged = true
	}
}

// normal is another spam filter.
func normal(l *store.Limits) { l.SpamFilter.Key, l.SpamFilter.Name = store.KeyOf("normal"), "normal" }

// withQuota puts a write under quotas whose tokens refill one an hour. The quota "none" has no tokens, "one" one, "two" two.
func withQuota(names ...string) detail {
	sizes := map[string]int{"none": 0, "one": 1, "two": 2}
	return under(func(l *store.Limits) {
		for _, name := range names {
			l.Quotas = append(l.Quotas, bucket(name, sizes[name], time.Hour))
		}
	})
}

// leavingReserve puts a write under the quota "two", of whose tokens it must leave one in reserve.
func leavingReserve() detail {
	return under(func(l *store.Limits) {
		b := bucket("two", 2, time.Hour)
		b.Reserve = 1
		l.Quotas = append(l.Quotas, b)
	})
}

// manyReasons creates an Event of each of n reasons.
func manyReasons(n int) action {
	return many(n, func(i int) action { return create(fmt.Sprintf("r%02d", i), reason(fmt.Sprintf("r%02d", i))) })
}

func spamFilter() []story {
	return []story{
		{name: "an empty bucket drops until its next token", limits: tokens(2, 0), steps: []step{
			{0, create("a", message("1")), "admit"},
			{time.Minute, create("b", message("2")), "admit"},
			{2 * time.Minute, create("c", message("3")), "drop by spam filter until 1h0m0s"},
			{time.Hour - us, create("c", message("3")), "drop by spam filter until 1h0m0s (+0)"},
			{time.Hour, create("c", message("3")), "admit"},
			{time.Hour, create("d", message("4")), "drop by spam filter until 2h0m0s"},
		}},
		{name: "each source, object, user and filter has its own tokens", limits: tokens(1, 0), steps: []step{
			{0, each(
				create("a", message("1")), create("b", message("2"), under(normal)), create("c", message("3"), pod("other")),
				create("d", message("3"), by("mallory")), create("e", message("3"), from("scheduler")),
			), "admit"},
			{0, create("f", message("4")), "drop by spam filter until 1h0m0s"},
			{0, create("g", message("5"), under(normal)), "drop by normal until 1h0m0s"},
		}},
		{name: "a merge takes a token if merges are charged", limits: charged(tokens(3, 0)), after: merged, steps: []step{
			{2 * us, create("c"), "merge into a 3"},
			{3 * us, create("d"), "drop by spam filter until 1h0m0s"},
			{10*time.Second + 3*us, due, "a 3 (2 merged); spam filter notice: 1 (Failed 1)"},
		}},
	}
}

func reserves() []story {
	return []story{
		{name: "the first Event of a reason passes an empty bucket, once in a window", limits: tokens(1, 1), steps: []step{
			{0, create("a", reason("BackOff"), message("1")), "admit"},
			{0, create("b", reason("BackOff"), message("2")), "drop by spam filter until 1h0m0s"},
			{0, create("c", reason("Killing"), message("3")), "admit"},
			{0, create("d", reason("Killing"), message("4")), "drop by spam filter until 1h0m0s"},
			{10*time.Minute - us, create("d", reason("Killing"), message("4")), "drop by spam filter until 1h0m0s (+0)"},
			{10 * time.Minute, create("d", reason("Killing"), message("4")), "admit"},
			{10 * time.Minute, create("e", reason("Killing"), message("5")), "drop by spam filter until 1h0m0s"},
		}},
		{name: "an Event that a reserve admits takes no token", limits: tokens(1, 2), steps: []step{
			{0, create("a", message("1")), "admit"},
			{30 * time.Minute, create("b", message("2")), "admit"},
			{time.Hour, each(create("c", message("3")), create("d", message("4"))), "admit"},
			{time.Hour, create("e", message("5")), "drop by spam filter until 2h0m0s"},
		}},
		{name: "at most 16 reasons have a reserve", limits: tokens(0, 1), steps: []step{
			{0, manyReasons(16), "admit"},
			{0, create("x", reason("One"), message("more")), "drop by spam filter for ever"},
			{10 * time.Minute, create("y", reason("One"), message("more")), "admit"},
		}},
	}
}

// quotas has stories about quotas. Most Events have different messages, so that they do not merge.
func quotas() []story {
	return []story{
		{name: "sources, objects and users share a quota", limits: tokens(9, 0), steps: []step{
			{0, each(create("a", pod("1"), withQuota("two")), create("b", from("2"), by("other"), withQuota("two"))), "admit"},
			{time.Minute, create("c", pod("3"), withQuota("two")), "drop by two until 1h0m0s"},
			{time.Hour - us, create("d", pod("3"), withQuota("two")), "drop by two until 1h0m0s"},
			{time.Hour, create("c", pod("3"), withQuota("two")), "admit"},
			{time.Hour, create("e", pod("4"), withQuota("two")), "drop by two until 2h0m0s"},
		}},
		{name: "an Event that one quota refuses takes no token of another", limits: tokens(9, 0), steps: []step{
			{0, create("a", message("1"), withQuota("one")), "admit"},
			{0, create("b", message("2"), withQuota("two", "one")), "drop by one until 1h0m0s"},
			{0, create("c", message("3"), withQuota("one", "two")), "drop by one until 1h0m0s"},
			{0, each(create("d", message("4"), withQuota("two")), create("e", message("5"), withQuota("two"))), "admit"},
			{0, create("f", message("6"), withQuota("two")), "drop by two until 1h0m0s"},
		}},
		{name: "an Event that a quota refuses takes no token of the spam filter, nor the other way round", limits: tokens(1, 0), steps: []step{
			{0, create("a", message("1"), withQuota("none")), "drop by none for ever"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3"), withQuota("one")), "drop by spam filter until 1h0m0s"},
			{0, create("d", message("3"), pod("other"), withQuota("one")), "admit"},
		}},
		{name: "a merge takes no token of a quota", limits: tokens(9, 0), steps: []step{
			{0, each(create("a", withQuota("two")), create("b", withQuota("two"))), "admit; merge into a 2"},
			{0, create("c", message("2"), withQuota("two")), "admit"},
			{0, create("d", message("3"), withQuota("two")), "drop by two until 1h0m0s"},
		}},
		{name: "a reserve does not bypass a quota", limits: tokens(0, 1), steps: []step{
			{0, create("a", message("1"), withQuota("one")), "admit"},
			{0, create("b", reason("Killing"), withQuota("one")), "drop by one until 1h0m0s"},
		}},
		{name: "a write that must leave a reserve takes no token from it", limits: tokens(9, 0), steps: []step{
			{0, create("a", message("1"), leavingReserve()), "admit"},
			{0, create("b", message("2"), leavingReserve()), "drop by two until 1h0m0s"},
			{0, create("c", message("3"), withQuota("two")), "admit"},
			{0, create("d", message("4"), withQuota("two")), "drop by two until 1h0m0s"},
			{time.Hour, create("e", message("5"), leavingReserve()), "drop by two until 2h0m0s"},
			{2 * time.Hour, create("f", message("6"), leavingReserve()), "admit"},
		}},
		{name: "a silent quota has no notice", limits: tokens(9, 0), steps: []step{
			{0, create("a", message("1"), under(func(l *store.Limits) {
				b := bucket("none", 0, time.Hour)
				b.Silent = true
				l.Quotas = append(l.Quotas, b)
			})), "drop by none for ever"},
			{us, drain, ""},
		}},
		{name: "an UPDATE takes a token of each quota, and is merged if one is empty", limits: tokens(9, 0), steps: []step{
			{0, create("a"), "admit"},
			{10 * time.Second, update("a", count(2), withQuota("two", "one")), "admit"},
			{20 * time.Second, update("a", count(3), withQuota("two", "one")), "merge into a 3"},
			{20 * time.Second, create("b", message("2"), withQuota("two")), "admit"},
			{20 * time.Second, create("c", message("3"), withQuota("two")), "drop by two until 1h0m10s"},
		}},
	}
}

// namesRefusedByQuota has stories about names that a quota refused. The first refusal of a name leaves no state. While
// nothing is known of the object, no refusal does.
func namesRefusedByQuota() []story {
	const none = "drop by none for ever"
	known := step{0, create("z", message("z")), "admit"}
	return []story{
		{name: "a name that is refused again with a higher count reports only the new occurrences", limits: tokens(9, 0), steps: []step{
			known,
			{us, each(create("a", withQuota("none")), create("a", withQuota("none"))), none},
			{2 * us, create("a", count(2), firstAt(0), withQuota("none")), none},
			{3 * us, create("a", count(5), firstAt(0), withQuota("none")), none + " (+3)"},
			{4 * us, each(create("a", count(5), firstAt(0), withQuota("none")), create("a", withQuota("none"))), none + " (+0)"},
			{5 * us, drain, "none notice: 6 (Failed 6)"},
		}},
		{name: "a name that began before names were kept reports only its last occurrence", limits: tokens(9, 0), steps: []step{
			known,
			{time.Hour, create("a", count(40), firstAt(-us), withQuota("none")), none},
			{time.Hour, create("a", count(42), firstAt(-us), withQuota("none")), none + " (+2)"},
			{time.Hour, create("b", count(9), firstAt(0), withQuota("none")), none + " (+8)"}, // this one began later
			{time.Hour, create("c", count(9), withQuota("none")), none},
		}},
		{name: "a name that is finally stored reports only the new occurrences", limits: tokens(9, 0), steps: []step{
			known,
			{us, create("a", withQuota("none")), none},
			{2 * us, create("a", count(3), firstAt(0), withQuota("none")), none + " (+2)"},
			{3 * us, create("a", count(4), firstAt(0), withQuota("two")), "admit"},
			{4 * us, create("b"), "merge into a 2"},
			{5 * us, drain, "a 2 (-2 merged); none notice: 3 (Failed 3)"},
		}},
		{name: "while nothing is known of the object, each refusal reports one occurrence", limits: tokens(9, 0), steps: []step{
			{us, each(create("a", withQuota("none")), create("a", count(2), firstAt(us), withQuota("none"))), none},
			{2 * us, create("a", count(3), firstAt(us), withQuota("none")), none},
			{3 * us, create("b", count(1<<31-1), firstAt(us), withQuota("none")), none},
			{4 * us, create("z", message("z")), "admit"},
			{5 * us, create("a", count(4), firstAt(us), withQuota("none")), none},
			{6 * us, create("a", count(7), firstAt(us), withQuota("none")), none + " (+3)"},
			{7 * us, drain, "none notice: 8 (Failed 8)"},
		}},
		{name: "while nothing is known of the object, a stored name is assumed to count by one", limits: tokens(9, 0), steps: []step{
			{us, each(create("a", withQuota("none")), create("a", count(2), firstAt(us), withQuota("none"))), none},
			{2 * us, create("a", count(3), firstAt(us), withQuota("two")), "admit"},
			{3 * us, drain, "a 1 (-2 merged); none notice: 2 (Failed 2)"},
		}},
		{name: "a name and its count are forgotten after the identical window", limits: tokens(9, 0), steps: []step{
			known,
			{0, create("a", count(5), firstAt(0), withQuota("none")), none + " (+4)"},
			{time.Hour, create("a", count(6), firstAt(0), withQuota("none")), none},
			{2*time.Hour + time.Second, create("a", count(3), firstAt(0), withQuota("none")), none},
			{2*time.Hour + time.Second, create("a", count(4), firstAt(0), withQuota("none")), none},
		}},
	}
}
