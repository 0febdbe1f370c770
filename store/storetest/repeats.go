package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

func repeats() []story {
	return []story{
		{says: "a first Event is admitted", steps: []step{
			{0, create("a"), "admit"},
		}},
		{says: "the same Event again merges into it by name", steps: []step{
			{0, create("a"), "admit"},
			{time.Second, create("b"), "merge into a 2"},
			{time.Second, create("c"), "merge into a 3"},
		}},
		{says: "another message, reason or source is another Event", steps: []step{
			{0, create("a"), "admit"},
			{0, create("b", message("n")), "admit"},
			{0, create("c", reason("Killing")), "admit"},
			{0, create("d", from("other")), "admit"},
			{0, create("e", message("n")), "merge into b 2"},
			{0, create("f", reason("Killing")), "merge into c 2"},
			{0, create("g", from("other")), "merge into d 2"},
		}},
		{says: "the repeat window starts again with each occurrence", steps: []step{
			{0, create("a"), "admit"},
			{time.Hour, create("b"), "merge into a 2"},
			{2 * time.Hour, create("c"), "merge into a 3"},
			{3*time.Hour + us, create("d"), "admit"},
			{3*time.Hour + us, create("e"), "merge into d 2"},
		}},
		{says: "a repeat by UPDATE keeps the repeat window open", steps: []step{
			{0, create("a"), "admit"},
			{time.Hour, update("a", count(2)), "admit"},
			{2 * time.Hour, create("b"), "merge into a 3"},
		}},
		{says: "what is owed to an Event past its repeat window still goes to it", steps: []step{
			{0, create("a"), "admit"},
			{time.Second, create("b"), "merge into a 2"},
			{2 * time.Hour, create("c"), "admit"},
			{2 * time.Hour, create("d"), "merge into c 2"},
			{2*time.Hour + 10*time.Second, due, "a 2 (1 merged); c 2 (1 merged)"},
		}},
	}
}

func counts() []story {
	return []story{
		{says: "the first count counts", steps: []step{
			{0, create("a", count(7)), "admit"},
			{0, create("b"), "merge into a 8"},
		}},
		{says: "a repeat counts what its name has not told before", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{2 * us, create("b", count(3)), "merge into a 4"},
			{3 * us, create("b", count(3)), "merge into a 4"},
			{4 * us, create("c", count(2)), "merge into a 6"},
			{5 * us, create("b", count(4)), "merge into a 7"},
		}},
		{says: "a lower count tells nothing", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b", count(5)), "merge into a 6"},
			{2 * us, create("b", count(2)), "merge into a 6"},
			{3 * us, create("b", count(6)), "merge into a 7"},
			{4 * us, create("a", count(4)), "admit"},
			{5 * us, create("a", count(2)), "admit"},
			{6 * us, create("c"), "merge into a 11"},
		}},
		{says: "the same name created again is admitted and goes on counting", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{2 * us, create("a", count(2)), "admit"},
			{3 * us, create("c"), "merge into a 4"},
			{10*time.Second + 2*us, due, "a 4 (2 merged)"},
		}},
		{says: "a name that was merged and is stored later tells only what is new", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b", count(3)), "merge into a 4"},
			{2 * time.Hour, create("b", count(4)), "admit"},
			{2 * time.Hour, create("c"), "merge into b 2"},
		}},
		{says: "an Event that tells nothing new still stands for one", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b", count(3)), "merge into a 4"},
			{10 * time.Second, due, "a 4 (3 merged)"},
			{10 * time.Second, told("a"), ""},
			{2 * time.Hour, create("b", count(3)), "admit"},
			{2*time.Hour + 10*time.Second, due, "b 1 (-2 merged)"},
		}},
		{says: "a merge that is charged for counts the same", terms: charged(10), steps: []step{
			{0, create("a"), "admit"},
			{us, create("b", count(3)), "merge into a 4"},
			{2 * us, create("b", count(4)), "merge into a 5"},
		}},
	}
}

func charged(burst int) func(*store.Terms) {
	return func(t *store.Terms) { t.ChargeMerged, t.Spam.Burst = true, burst }
}
