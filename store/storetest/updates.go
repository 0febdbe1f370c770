package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

func updates() []story {
	return []story{
		{says: "an UPDATE within the flush interval merges", steps: []step{
			{0, create("a"), "admit"},
			{10*time.Second - us, update("a", count(2)), "merge into a 2"},
			{10 * time.Second, due, "a 2 (0 merged)"},
		}},
		{says: "an UPDATE a flush interval after the last write is admitted", steps: []step{
			{0, create("a"), "admit"},
			{10 * time.Second, update("a", count(2)), "admit"},
			{20*time.Second - us, update("a", count(3), stored(2)), "merge into a 3"},
			{20 * time.Second, due, "a 3 (0 merged)"},
		}},
		{says: "an UPDATE that is admitted leaves nothing to settle", steps: []step{
			{0, create("a"), "admit"},
			{10 * time.Second, update("a", count(2)), "admit"},
			{time.Hour, drain, ""},
		}},
		{says: "an UPDATE of an Event to which something is owed merges", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", count(2)), "merge into a 2"},
			{time.Minute, update("a", count(3)), "merge into a 3"},
			{time.Minute, due, "a 3 (0 merged)"},
			{2 * time.Minute, update("a", count(4)), "merge into a 4"},
		}},
		{says: "an UPDATE merges while a settler is at work on its Event", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", count(2)), "merge into a 2"},
			{10 * time.Second, due, "a 2 (0 merged)"},
			{11 * time.Second, update("a", count(3)), "merge into a 3"},
			{12 * time.Second, told("a"), ""},
			{22 * time.Second, due, "a 3 (0 merged)"},
		}},
		{says: "an UPDATE is admitted again a flush interval after the settler's write", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", count(2)), "merge into a 2"},
			{10 * time.Second, due, "a 2 (0 merged)"},
			{11 * time.Second, told("a"), ""},
			{21*time.Second - us, update("a", count(2), stored(2), content("touch")), "merge into a 2"},
			{21 * time.Second, due, "a 2 (0 merged)"},
			{21 * time.Second, told("a"), ""},
			{31 * time.Second, update("a", count(3), stored(2)), "admit"},
		}},
		{says: "an UPDATE that finds its bucket empty merges", terms: spare(1, 0), steps: []step{
			{0, create("a"), "admit"},
			{time.Minute, update("a", count(2)), "merge into a 2"},
			{time.Hour, due, "a 2 (0 merged)"},
			{time.Hour, told("a"), ""},
			{2 * time.Hour, update("a", count(3), stored(2)), "admit"},
			{2*time.Hour + time.Minute, update("a", count(4), stored(3)), "merge into a 4"},
		}},
		{says: "an UPDATE that does not know of what merged is left to the settler", steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge into a 2"},
			{10 * time.Second, due, "a 2 (1 merged)"},
			{10 * time.Second, told("a"), ""},
			{time.Minute, update("a", count(2), stored(2)), "merge into a 3"},
			{time.Minute, due, "a 3 (1 merged)"},
		}},
		{says: "the same UPDATE again is not charged twice", terms: spare(3, 0), steps: []step{
			{0, create("a"), "admit"},
			{10 * time.Second, update("a", count(2)), "admit"},
			{10*time.Second + us, update("a", count(2)), "admit"},
			{20 * time.Second, update("a", count(3), stored(2)), "admit"},
			{30 * time.Second, update("a", count(4), stored(3)), "merge into a 4"},
		}},
		{says: "the same UPDATE again does not undo what the settler wrote", steps: []step{
			{0, create("a"), "admit"},
			{10 * time.Second, update("a", count(2)), "admit"},
			{11 * time.Second, create("b"), "merge into a 3"},
			{20 * time.Second, due, "a 3 (1 merged)"},
			{20 * time.Second, told("a"), ""},
			{21 * time.Second, update("a", count(2), stored(3)), "merge into a 3"},
		}},
		{says: "an UPDATE whose content has no name is never the same", steps: []step{
			{0, update("a", count(2), nameless), "admit"},
			{us, update("a", count(2), nameless), "merge into a 2"},
		}},
	}
}

// strangeUpdates are those of Events that are not known, and those that move
// more than a recorder does.
func strangeUpdates() []story {
	noTokens := func(t *store.Terms) { t.Spam.Burst = 0 }
	return []story{
		{says: "an unknown Event is known from its UPDATE on", steps: []step{
			{0, update("a", count(5), stored(4)), "admit"},
			{us, create("b"), "merge into a 6"},
			{2 * us, update("a", count(6), stored(5)), "merge into a 7"},
			{10 * time.Second, due, "a 7 (1 merged)"},
		}},
		{says: "what had merged into an unknown Event is not overwritten", steps: []step{
			{0, update("a", count(5), stored(10), storedMerged(6)), "merge into a 11"},
			{10 * time.Second, due, "a 11 (6 merged)"},
		}},
		{says: "what had merged into an unknown Event comes back when it was overwritten", steps: []step{
			{0, update("a", count(12), stored(11), storedMerged(30), overwritten), "merge into a 42"},
			{10 * time.Second, due, "a 42 (30 merged)"},
		}},
		{says: "an unknown Event never stands for less than one occurrence", steps: []step{
			{0, update("a", count(2), stored(1), storedMerged(-4), overwritten), "admit"},
			{time.Hour, create("b"), "merge into a 3"},
		}},
		{says: "an unknown Event to which less had been owed than its writer told", steps: []step{
			{0, update("a", count(5), stored(2), storedMerged(-2)), "merge into a 3"},
			{10 * time.Second, due, "a 3 (-2 merged)"},
		}},
		{says: "an UPDATE that moves more than a recorder does is admitted, free of charge", terms: noTokens, steps: []step{
			{0, update("a", labelling), "admit"},
			{us, update("a", labelling, count(2)), "admit"},
			{2 * us, update("a", count(3), stored(2)), "merge into a 3"},
			{3 * us, update("a", labelling, stored(2), count(2)), "admit"},
			{time.Minute, due, "a 3 (0 merged)"},
		}},
		{says: "a label does not unsettle an Event", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", labelling), "admit"},
			{time.Hour, drain, ""},
		}},
		{says: "a label with a count tells what is new in it", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", labelling, count(3)), "admit"},
			{2 * us, create("b"), "merge into a 4"},
		}},
		{says: "a label that sets back what merged is made good", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{10 * time.Second, due, "a 2 (1 merged)"},
			{10 * time.Second, told("a"), ""},
			{20 * time.Second, update("a", labelling, count(1), stored(2)), "admit"},
			{30*time.Second - us, due, ""},
			{30 * time.Second, due, "a 2 (1 merged)"},
		}},
		{says: "a label does not put off what is owed", steps: []step{
			{0, create("a"), "admit"},
			{9 * time.Second, update("a", labelling), "admit"},
			{9 * time.Second, create("b"), "merge into a 2"},
			{10 * time.Second, due, "a 2 (1 merged)"},
			{11 * time.Second, update("a", labelling, count(2), stored(2)), "admit"},
			{12 * time.Second, told("a"), ""},
			{time.Hour, drain, ""},
		}},
		{says: "an unknown Event that a label set back and that is gone is told of", terms: noTokens, steps: []step{
			{0, update("a", labelling, count(2), stored(5)), "admit"},
			{10 * time.Second, due, "a 5 (0 merged)"},
			{10 * time.Second, lost("a"), ""},
			{time.Hour, due, ""},
			{2 * time.Hour, due, "create notice: 3 (Failed 3)"},
		}},
	}
}
