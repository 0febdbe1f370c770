package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

func updates() []story {
	return []story{
		{says: "an UPDATE of an Event for which something is pending merges", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", count(2)), "merge into a 2"},
			{time.Minute, update("a", count(5)), "merge into a 5 (+3)"},
			{time.Minute, due, "a 5 (0 merged)"},
			{2 * time.Minute, update("a", count(6)), "merge into a 6"},
		}},
		{says: "an UPDATE is admitted again a write interval after the settler's write", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", count(2)), "merge into a 2"},
			{10 * time.Second, due, "a 2 (0 merged)"},
			{11 * time.Second, written("a"), ""},
			{21*time.Second - us, update("a", count(2), stored(2), content("touch")), "merge into a 2 (+0)"},
			{21 * time.Second, due, "a 2 (0 merged)"},
			{21 * time.Second, written("a"), ""},
			{31 * time.Second, update("a", count(3), stored(2)), "admit"},
		}},
		{says: "an UPDATE that finds the spam filter empty merges", limits: tokens(1, 0), steps: []step{
			{0, create("a"), "admit"},
			{time.Minute, update("a", count(2)), "merge into a 2"},
			{time.Hour, due, "a 2 (0 merged)"},
			{time.Hour, written("a"), ""},
			{2 * time.Hour, update("a", count(3), stored(2)), "admit"},
			{2*time.Hour + time.Minute, update("a", count(4), stored(3)), "merge into a 4"},
		}},
		{says: "an UPDATE that would put a message back merges, and its text is not kept", after: three, steps: []step{
			{time.Minute, update("c", message("3"), count(2), reverting), "merge into c 2"},
			{time.Minute, saying, `default/c last 1m0s, text "3", messages (3 1)`},
		}},
		{says: "the same UPDATE again is admitted without another token", limits: tokens(3, 0), steps: []step{
			{0, create("a"), "admit"},
			{10 * time.Second, update("a", count(2)), "admit"},
			{10*time.Second + us, update("a", count(2)), "admit"},
			{20 * time.Second, update("a", count(3), stored(2)), "admit"},
			{30 * time.Second, update("a", count(4), stored(3)), "merge into a 4"},
		}},
		{says: "another user's UPDATE is its own group's", after: merged, steps: []step{
			{2 * us, update("a", count(2), by("mallory"), stored(2), storedMerged(1)), "merge into a 3"},
			{3 * us, drain, "a 2 (1 merged); a 3 (1 merged)"},
		}},
	}
}

func otherUpdates() []story {
	annotating := func(n string) detail { return func(f *facts) { labelling(f); content(n)(f) } }
	return []story{
		{says: "it pays every quota, and is refused when one is empty", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", annotating("1"), bound("one")), "admit"},
			{2 * us, update("a", annotating("2"), bound("two", "one")), "drop by one until 1h0m0.000001s (+0)"},
			{3 * us, each(create("b", pod("2"), bound("two")), create("c", pod("3"), bound("two"))), "admit"},
			{time.Hour + us, update("a", annotating("3"), bound("one")), "admit"},
		}},
		{says: "it pays once for each new content", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", annotating("1"), bound("one")), "admit"},
			{2 * us, update("a", annotating("1"), bound("one")), "admit"},
			{3 * us, update("a", annotating("2"), bound("one")), "drop by one until 1h0m0.000001s (+0)"},
			{4 * us, update("a", annotating("1"), bound("one")), "admit"},
		}},
		{says: "a thousand of them do not get past an empty quota", steps: []step{
			{0, create("a", bound("one")), "admit"},
			{us, thousand(func(n string) action { return update("a", annotating(n), bound("one")) }), "drop by one until 1h0m0s (+0)"},
		}},
		{says: "what is new in its count is reported once", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", labelling, count(3)), "admit"},
			{2 * us, create("b"), "merge into a 4"},
			{3 * us, update("a", labelling, count(5), stored(3), bound("none")), "drop by none for ever (+2)"},
			{4 * us, update("a", labelling, count(5), stored(3), content("again"), bound("none")), "drop by none for ever (+0)"},
			{5 * us, drain, "a 4 (-1 merged); none notice: 2 (Failed 2)"},
		}},
		{says: "a count that it sets back is restored", after: settled, steps: []step{
			{20 * time.Second, update("a", labelling, count(1), stored(2), storedMerged(1)), "admit"},
			{30*time.Second - us, due, ""},
			{30 * time.Second, due, "a 2 (1 merged)"},
		}},
		{says: "the Event is read again after it", after: settled, steps: []step{
			{11 * time.Second, create("c"), "merge into a 3"},
			{11 * time.Second, asking, `a uid "a-uid" version "1" written 2 exact admitted 0s`},
			{12 * time.Second, update("a", labelling, count(2), stored(2), storedMerged(1)), "admit"},
			{12 * time.Second, asking, `a uid "a-uid" version "" written 2 exact`},
		}},
	}
}

// thousand does the same a thousand times, under other names, and says what became of all.
func thousand(do func(n string) action) action {
	all := make([]action, 1000)
	for i := range all {
		all[i] = do(time.Duration(i).String())
	}
	return each(all...)
}

// unknown are Events that the store learns of by an UPDATE, or by what the settler has read.
func unknown() []story {
	return []story{
		{says: "an Event is known from its UPDATE on", steps: []step{
			{0, update("a", count(5), stored(4)), "admit"},
			{us, create("b"), "merge into a 6"},
			{2 * us, update("a", count(6), stored(5)), "merge into a 7"},
			{10 * time.Second, due, "a 7 (1 merged)"},
		}},
		{says: "what had merged into it is not overwritten", steps: []step{
			{0, update("a", count(5), stored(10), storedMerged(6)), "merge into a 11"},
			{10 * time.Second, due, "a 11 (6 merged)"},
		}},
		{says: "and comes back when a recorder has overwritten it", steps: []step{
			{0, update("a", count(12), stored(11), storedMerged(30), overwritten), "merge into a 42"},
		}},
		{says: "the settler's reading is adopted where it is more", after: claimed, steps: []step{
			{10 * time.Second, written("a", store.Stored{Count: 9, Merged: 4}), ""},
			{11 * time.Second, create("c"), "merge into a 10"},
			{20 * time.Second, due, "a 10 (5 merged)"},
		}},
	}
}
