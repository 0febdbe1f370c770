package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// bound puts a write under quotas of an hour a token, by name: "one" holds one token, "two" two.
func bound(names ...string) detail {
	sizes := map[string]int{"none": 0, "one": 1, "two": 2}
	return under(func(l *store.Limits) {
		for _, name := range names {
			l.Quotas = append(l.Quotas, bucket(name, sizes[name], time.Hour))
		}
	})
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
		{says: "what a quota refuses uses up no token of the spam filter", limits: tokens(1, 0), steps: []step{
			{0, create("a", message("1"), bound("none")), "drop by none for ever"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3")), "drop by spam filter until 1h0m0s"},
		}},
		{says: "what the spam filter refuses uses up no quota", limits: tokens(1, 0), steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2"), bound("one")), "drop by spam filter until 1h0m0s"},
			{0, create("c", message("3"), pod("other"), bound("one")), "admit"},
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
	return []story{
		{says: "an occurrence that comes back with a higher count reports what is new", limits: tokens(9, 0), steps: []step{
			{us, create("a", bound("none")), "drop by none for ever"},
			{2 * us, create("a", count(2), firstAt(0), bound("none")), "drop by none for ever"},
			{3 * us, create("a", count(5), firstAt(0), bound("none")), "drop by none for ever (+3)"},
			{4 * us, create("a", count(5), firstAt(0), bound("none")), "drop by none for ever (+0)"},
			{5 * us, drain, "none notice: 5 (Failed 5)"},
		}},
		{says: "one that began before names were kept reports its newest occurrence", limits: tokens(9, 0), steps: []step{
			{2 * time.Hour, create("a", count(40), firstAt(0), bound("none")), "drop by none for ever"},
			{2 * time.Hour, create("a", count(42), firstAt(0), bound("none")), "drop by none for ever (+2)"},
		}},
		{says: "one that is stored in the end reports only what is new", limits: tokens(9, 0), steps: []step{
			{us, create("a", bound("none")), "drop by none for ever"},
			{2 * us, create("a", count(2), firstAt(0), bound("two")), "admit"},
			{3 * us, create("b"), "merge into a 2"},
			{4 * us, drain, "a 2 (0 merged); none notice: 1 (Failed 1)"},
		}},
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

func sharedSpamFilter() []story {
	const empty = "drop by shared filter until 1h0m0s"
	charging := func(l *store.Limits) {
		shared(3, 0)(l)
		l.ChargeMerged = true
	}
	return []story{
		{says: "a shared filter is one over sources and objects", limits: shared(2, 0), steps: []step{
			{0, create("a", pod("1")), "admit"},
			{time.Minute, create("b", pod("2")), "admit"},
			{2 * time.Minute, create("c", pod("3")), empty},
			{2 * time.Minute, create("d", pod("1"), message("2")), empty},
			{time.Hour, create("e", pod("3")), "admit"},
			{time.Hour, create("f", pod("1"), message("3")), "drop by shared filter until 2h0m0s"},
		}},
		{says: "what merges costs a token of it where it is charged", limits: charging, steps: []step{
			{0, create("a", pod("1")), "admit"},
			{us, create("b", pod("1")), "merge into a 2"},
			{2 * us, create("c", pod("2")), "admit"},
			{3 * us, create("d", pod("2")), empty},
			{4 * us, create("e", pod("1")), empty},
			{time.Hour, create("f", pod("1")), "merge into a 3"},
		}},
		{says: "the first Event of a reason about each object passes an empty one", limits: shared(1, 1), steps: []step{
			{0, create("a", pod("1")), "admit"},
			{0, create("b", pod("2")), "admit"},
			{0, create("c", pod("2"), message("2")), empty},
			{0, create("d", pod("1"), message("2")), empty},
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
