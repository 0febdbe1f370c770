package storetest

import (
	"fmt"
	"time"

	"github.com/eventquota/eventquota/store"
)

// tokens makes each message an Event of its own and the spam filter hold burst tokens of an hour each.
func tokens(burst, reserve int) func(*store.Limits) {
	return func(l *store.Limits) {
		l.MaxEvents, l.ReservePerReason = 100, reserve
		l.Spam.Limit = store.Limit{Burst: burst, Every: time.Hour}
	}
}

// shared is tokens with a spam filter that many sources and objects share.
func shared(burst, reserve int) func(*store.Limits) {
	return func(l *store.Limits) {
		tokens(burst, reserve)(l)
		filter := bucket("shared filter", burst, time.Hour)
		filter.SpamFilter = true
		l.Spam, l.Quotas = store.Bucket{}, append(l.Quotas, filter)
	}
}

// charged makes merged CREATEs take tokens too.
func charged(change func(*store.Limits)) func(*store.Limits) {
	return func(l *store.Limits) {
		change(l)
		l.ChargeMerged = true
	}
}

// normal is another spam filter.
func normal(l *store.Limits) { l.Spam.Key, l.Spam.Name = store.KeyOf("normal"), "normal" }

// bound puts a write under quotas of an hour a token, by name: "one" holds one token, "two" two.
func bound(names ...string) detail {
	sizes := map[string]int{"none": 0, "one": 1, "two": 2}
	return under(func(l *store.Limits) {
		for _, name := range names {
			l.Quotas = append(l.Quotas, bucket(name, sizes[name], time.Hour))
		}
	})
}

// manyReasons creates an Event of each of n reasons.
func manyReasons(n int) action {
	return many(n, func(i int) action { return create(fmt.Sprintf("r%02d", i), reason(fmt.Sprintf("r%02d", i))) })
}

func spamFilter() []story {
	return []story{
		{says: "an empty bucket drops until its next token comes", limits: tokens(2, 0), steps: []step{
			{0, create("a", message("1")), "admit"},
			{time.Minute, create("b", message("2")), "admit"},
			{2 * time.Minute, create("c", message("3")), "drop by spam filter until 1h0m0s"},
			{time.Hour - us, create("c", message("3")), "drop by spam filter until 1h0m0s (+0)"},
			{time.Hour, create("c", message("3")), "admit"},
			{time.Hour, create("d", message("4")), "drop by spam filter until 2h0m0s"},
		}},
		{says: "each source, object, user and filter has its own tokens", limits: tokens(1, 0), steps: []step{
			{0, each(
				create("a", message("1")), create("b", message("2"), under(normal)), create("c", message("3"), pod("other")),
				create("d", message("3"), by("mallory")), create("e", message("3"), from("scheduler")),
			), "admit"},
			{0, create("f", message("4")), "drop by spam filter until 1h0m0s"},
			{0, create("g", message("5"), under(normal)), "drop by normal until 1h0m0s"},
		}},
		{says: "what merges costs a token where it is charged", limits: charged(tokens(3, 0)), after: merged, steps: []step{
			{2 * us, create("c"), "merge into a 3"},
			{3 * us, create("d"), "drop by spam filter until 1h0m0s"},
			{10*time.Second + 3*us, due, "a 3 (2 merged); spam filter notice: 1 (Failed 1)"},
		}},
	}
}

func reserves() []story {
	return []story{
		{says: "the first Event of a reason passes an empty bucket, once in a window", limits: tokens(1, 1), steps: []step{
			{0, create("a", reason("BackOff"), message("1")), "admit"},
			{0, create("b", reason("BackOff"), message("2")), "drop by spam filter until 1h0m0s"},
			{0, create("c", reason("Killing"), message("3")), "admit"},
			{0, create("d", reason("Killing"), message("4")), "drop by spam filter until 1h0m0s"},
			{10*time.Minute - us, create("d", reason("Killing"), message("4")), "drop by spam filter until 1h0m0s (+0)"},
			{10 * time.Minute, create("d", reason("Killing"), message("4")), "admit"},
			{10 * time.Minute, create("e", reason("Killing"), message("5")), "drop by spam filter until 1h0m0s"},
		}},
		{says: "what passes on a reserve takes no token", limits: tokens(1, 2), steps: []step{
			{0, create("a", message("1")), "admit"},
			{30 * time.Minute, create("b", message("2")), "admit"},
			{time.Hour, each(create("c", message("3")), create("d", message("4"))), "admit"},
			{time.Hour, create("e", message("5")), "drop by spam filter until 2h0m0s"},
		}},
		{says: "at most 16 reasons have a reserve", limits: tokens(0, 1), steps: []step{
			{0, manyReasons(16), "admit"},
			{0, create("x", reason("One"), message("more")), "drop by spam filter for ever"},
			{10 * time.Minute, create("y", reason("One"), message("more")), "admit"},
		}},
	}
}

func sharedSpamFilter() []story {
	const empty = "drop by shared filter until 1h0m0s"
	return []story{
		{says: "a shared filter is one over sources and objects", limits: shared(2, 0), steps: []step{
			{0, create("a", pod("1")), "admit"},
			{time.Minute, create("b", pod("2")), "admit"},
			{2 * time.Minute, each(create("c", pod("3")), create("d", pod("1"), message("2"))), empty},
			{time.Hour, create("e", pod("3")), "admit"},
			{time.Hour, create("f", pod("1"), message("3")), "drop by shared filter until 2h0m0s"},
		}},
		{says: "what merges costs a token of it where it is charged", limits: charged(shared(3, 0)), steps: []step{
			{0, create("a", pod("1")), "admit"},
			{us, create("b", pod("1")), "merge into a 2"},
			{2 * us, create("c", pod("2")), "admit"},
			{3 * us, each(create("d", pod("2")), create("e", pod("1"))), empty},
			{time.Hour, create("f", pod("1")), "merge into a 3"},
		}},
		{says: "the first Event of a reason about each object passes an empty one", limits: shared(1, 1), steps: []step{
			{0, each(create("a", pod("1")), create("b", pod("2"))), "admit"},
			{0, each(create("c", pod("2"), message("2")), create("d", pod("1"), message("2"))), empty},
			{0, create("e", pod("1"), reason("Killing")), "admit"},
			{10*time.Minute - us, create("f", pod("2"), message("2")), empty},
			{10 * time.Minute, create("g", pod("2"), message("2")), "admit"},
		}},
		{says: "a recorder's UPDATE pays it", limits: shared(2, 1), steps: []step{
			{0, create("a", pod("1")), "admit"},
			{10 * time.Second, update("a", pod("1"), count(2)), "admit"},
			{20 * time.Second, update("a", pod("1"), count(3)), "merge into a 3"},
			{20 * time.Second, create("b", pod("2")), "admit"}, // its reserve
			{20 * time.Second, create("c", pod("2"), message("2")), empty},
		}},
	}
}

// quotas are asked without merging: each Event has its own message.
func quotas() []story {
	return []story{
		{says: "a quota is shared by sources, objects and users", limits: tokens(9, 0), steps: []step{
			{0, each(create("a", pod("1"), bound("two")), create("b", from("2"), by("other"), bound("two"))), "admit"},
			{time.Minute, create("c", pod("3"), bound("two")), "drop by two until 1h0m0s"},
			{time.Hour - us, create("d", pod("3"), bound("two")), "drop by two until 1h0m0s"},
			{time.Hour, create("c", pod("3"), bound("two")), "admit"},
			{time.Hour, create("e", pod("4"), bound("two")), "drop by two until 2h0m0s"},
		}},
		{says: "what one quota refuses uses up no other quota", limits: tokens(9, 0), steps: []step{
			{0, create("a", message("1"), bound("one")), "admit"},
			{0, create("b", message("2"), bound("two", "one")), "drop by one until 1h0m0s"},
			{0, create("c", message("3"), bound("one", "two")), "drop by one until 1h0m0s"},
			{0, each(create("d", message("4"), bound("two")), create("e", message("5"), bound("two"))), "admit"},
			{0, create("f", message("6"), bound("two")), "drop by two until 1h0m0s"},
		}},
		{says: "what a quota refuses uses up no token of the spam filter, nor the other way round", limits: tokens(1, 0), steps: []step{
			{0, create("a", message("1"), bound("none")), "drop by none for ever"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3"), bound("one")), "drop by spam filter until 1h0m0s"},
			{0, create("d", message("3"), pod("other"), bound("one")), "admit"},
		}},
		{says: "a reserve does not get past a quota", limits: tokens(0, 1), steps: []step{
			{0, create("a", message("1"), bound("one")), "admit"},
			{0, create("b", reason("Killing"), bound("one")), "drop by one until 1h0m0s"},
		}},
		{says: "an UPDATE pays every quota, and is merged when one is empty", limits: tokens(9, 0), steps: []step{
			{0, create("a"), "admit"},
			{10 * time.Second, update("a", count(2), bound("two", "one")), "admit"},
			{20 * time.Second, update("a", count(3), bound("two", "one")), "merge into a 3"},
			{20 * time.Second, create("b", message("2"), bound("two")), "admit"},
			{20 * time.Second, create("c", message("3"), bound("two")), "drop by two until 1h0m10s"},
		}},
	}
}

// quotaNames are the names of Events that a quota refused. The first refusal of a name leaves no state.
func quotaNames() []story {
	const none = "drop by none for ever"
	return []story{
		{says: "an occurrence that comes back with a higher count reports what is new", limits: tokens(9, 0), steps: []step{
			{us, each(create("a", bound("none")), create("a", bound("none"))), none},
			{2 * us, create("a", count(2), firstAt(0), bound("none")), none},
			{3 * us, create("a", count(5), firstAt(0), bound("none")), none + " (+3)"},
			{4 * us, each(create("a", count(5), firstAt(0), bound("none")), create("a", bound("none"))), none + " (+0)"},
			{5 * us, drain, "none notice: 6 (Failed 6)"},
		}},
		{says: "one that began before names were kept reports its newest occurrence", limits: tokens(9, 0), steps: []step{
			{time.Hour, create("a", count(40), firstAt(-us), bound("none")), none},
			{time.Hour, create("a", count(42), firstAt(-us), bound("none")), none + " (+2)"},
			{time.Hour, create("b", count(9), firstAt(0), bound("none")), none + " (+8)"}, // this one did not
			{time.Hour, create("c", count(9), bound("none")), none},
		}},
		{says: "one that is stored in the end reports only what is new", limits: tokens(9, 0), steps: []step{
			{us, create("a", bound("none")), none},
			{2 * us, create("a", count(3), firstAt(0), bound("none")), none + " (+2)"},
			{3 * us, create("a", count(4), firstAt(0), bound("two")), "admit"},
			{4 * us, create("b"), "merge into a 2"},
			{5 * us, drain, "a 2 (-2 merged); none notice: 3 (Failed 3)"},
		}},
		{says: "it is forgotten when names are kept no longer, and so is its count", limits: tokens(9, 0), steps: []step{
			{0, create("a", count(5), firstAt(0), bound("none")), none + " (+4)"},
			{time.Hour, create("a", count(6), firstAt(0), bound("none")), none},
			{2*time.Hour + time.Second, create("a", count(3), firstAt(0), bound("none")), none},
			{2*time.Hour + time.Second, create("a", count(4), firstAt(0), bound("none")), none},
		}},
	}
}
