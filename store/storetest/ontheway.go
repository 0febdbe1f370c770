package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// onTheWay is what happens between the mutating and the validating phase.
func onTheWay() []story {
	return []story{
		{says: "a repeat merges into an Event on its way", steps: []step{
			{0, mutate("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{2 * us, validate("a"), "admit"},
			{10*time.Second + 2*us, due, "a 2 (1 merged)"},
		}},
		{says: "an Event that never arrives gives its place to the next", steps: []step{
			{0, mutate("a"), "admit"},
			{3 * time.Second, create("b"), "admit"},
			{4 * time.Second, create("c"), "merge into b 2"},
		}},
		{says: "what merged into an Event that never arrives goes with the next", steps: []step{
			{0, mutate("a"), "admit"},
			{time.Second, create("b"), "merge into a 2"},
			{4 * time.Second, create("c"), "admit"},
			{4 * time.Second, create("d"), "merge into c 3"},
		}},
		{says: "an Event that is refused again and again tells nothing", steps: []step{
			{0, mutate("a"), "admit"},
			{time.Second, mutate("a", count(2)), "admit"},
			{time.Second, create("b"), "merge into a 3"},
			{4 * time.Second, create("c"), "admit"},
			{4 * time.Second, create("d"), "merge into c 3"},
		}},
		{says: "an Event stored, lost and then refused goes on where it was", steps: []step{
			{0, create("a", count(5)), "admit"},
			{time.Minute, mutate("a", count(6)), "admit"},
			{time.Minute + 4*time.Second, create("b"), "admit"},
			{time.Minute + 4*time.Second, create("a", count(7)), "merge into b 8"},
		}},
		{says: "what merged into an Event that never arrives is told when none follows", steps: []step{
			{0, mutate("a"), "admit"},
			{time.Second, create("b"), "merge into a 2"},
			{20 * time.Second, due, "a 2 (1 merged)"},
			{20 * time.Second, lost("a"), ""},
			{11 * time.Minute, due, ""},
			{12 * time.Minute, due, "create notice: 1 (Failed 1)"},
		}},
		{says: "an Event that was looked for too early is not lost", steps: []step{
			{0, mutate("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{2 * us, drain, "a 2 (1 merged)"},
			{3 * us, lost("a"), ""},
			{4 * us, validate("a"), "admit"},
			{5 * us, create("c"), "merge into a 3"},
			{10*time.Second + 4*us, due, "a 3 (2 merged)"},
		}},
		{says: "a settler does not look for an Event before it can have arrived", steps: []step{
			{0, create("a"), "admit"},
			{time.Minute, mutate("a", count(2)), "admit"},
			{time.Minute, create("b"), "merge into a 3"},
			{time.Minute, due, ""},
			{time.Minute + time.Second, validate("a", count(2)), "admit"},
			{time.Minute + 11*time.Second, due, "a 3 (1 merged)"},
		}},
		{says: "a settler does not look for one that takes over a debt either", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{10 * time.Second, due, "a 2 (1 merged)"},
			{10 * time.Second, lost("a"), ""},
			{time.Hour, mutate("c"), "admit"},
			{time.Hour, due, ""},
			{time.Hour, validate("c"), "admit"},
			{time.Hour + 10*time.Second, due, "c 3 (2 merged)"},
		}},
		{says: "an Event that arrives after another took its place is stored beside it", steps: []step{
			{0, mutate("a", count(2)), "admit"},
			{3 * time.Second, create("b"), "admit"},
			{3 * time.Second, validate("a", count(2)), "admit"},
			{4 * time.Second, create("c"), "merge into b 2"},
			{5 * time.Second, update("a", count(3), stored(2)), "merge into a 3"},
		}},
		{says: "an Event that only the validating phase saw is known", steps: []step{
			{0, validate("a"), "admit"},
			{us, create("b"), "merge into a 2"},
		}},
		{says: "an UPDATE tells that an Event has arrived", steps: []step{
			{0, mutate("a"), "admit"},
			{3 * time.Second, update("a", count(2), under(func(t *store.Terms) { t.Spam.Burst = 0 })), "merge into a 2"},
			{4 * time.Second, create("b"), "merge into a 3"},
		}},
	}
}
