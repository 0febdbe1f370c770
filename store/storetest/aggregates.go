package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// aggregates are told with three distinct messages to an aggregate.
func aggregates() []story {
	return []story{
		{says: "the Event with the last distinct message becomes the aggregate", steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3")), "aggregate"},
			{0, create("d", message("4")), "merge into c 2"},
			{0, create("e", message("3")), "merge into c 3"},
		}},
		{says: "messages from before the aggregate go on counting their own repeats", steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3")), "aggregate"},
			{0, create("d", message("1")), "merge into a 2"},
			{0, create("e", message("2")), "merge into b 2"},
			{0, create("f", message("2")), "merge into b 3"},
		}},
		{says: "other reasons are not similar", steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3"), reason("Killing")), "admit"},
			{0, create("d", message("3"), from("other")), "admit"},
			{0, create("e", message("3")), "aggregate"},
		}},
		{says: "the window starts again with each similar Event", steps: []step{
			{0, create("a", message("1")), "admit"},
			{10 * time.Minute, create("b", message("2")), "admit"},
			{20 * time.Minute, create("c", message("3")), "aggregate"},
		}},
		{says: "a repeat keeps the window open", steps: []step{
			{0, create("a", message("1")), "admit"},
			{us, create("b", message("2")), "admit"},
			{9 * time.Minute, create("c", message("1")), "merge into a 2"},
			{18 * time.Minute, create("d", message("3")), "aggregate"},
		}},
		{says: "past the window similar Events are counted anew", steps: []step{
			{0, create("a", message("1")), "admit"},
			{us, create("b", message("2")), "admit"},
			{10*time.Minute + 2*us, create("c", message("3")), "admit"},
			{10*time.Minute + 2*us, create("d", message("4")), "admit"},
			{10*time.Minute + 2*us, create("e", message("5")), "aggregate"},
		}},
		{says: "an aggregate takes similar Events again after a quiet window", steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3")), "aggregate"},
			{11 * time.Minute, create("d", message("4")), "admit"},
			{11 * time.Minute, create("e", message("5")), "admit"},
			{11 * time.Minute, create("f", message("6")), "merge into c 2"},
		}},
		{says: "past its repeat window an aggregate is followed by another", steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3")), "aggregate"},
			{2 * time.Hour, create("d", message("4")), "admit"},
			{2 * time.Hour, create("e", message("5")), "admit"},
			{2 * time.Hour, create("f", message("6")), "aggregate"},
		}},
		{says: "where one message makes an aggregate every first Event is one",
			terms: func(t *store.Terms) { t.MaxEvents = 1 }, steps: []step{
				{0, create("a", message("1")), "aggregate"},
				{0, create("b", message("1")), "merge into a 2"},
				{0, create("c", message("2")), "merge into a 3"},
			}},
		{says: "an aggregate created again is an aggregate still", steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3")), "aggregate"},
			{us, create("c", message("3"), count(2)), "aggregate"},
			{2 * us, create("d", message("4")), "merge into c 3"},
		}},
		{says: "an Event created again as the aggregate takes similar Events", steps: []step{
			{0, create("a", message("1")), "admit"},
			{11 * time.Minute, create("b", message("2")), "admit"},
			{11 * time.Minute, create("c", message("3")), "admit"},
			{11 * time.Minute, create("a", message("1"), count(2)), "aggregate"},
			{11 * time.Minute, create("d", message("4")), "merge into a 3"},
		}},
		{says: "an aggregate keeps its newest distinct messages and their counts", steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3")), "aggregate"},
			{us, create("d", message("4"), count(2)), "merge into c 3"},
			{2 * us, create("e", message("3")), "merge into c 4"},
			{10 * time.Second, saying, `default/c last 2µs, series false, text "3", messages (3 2, 4 2)`},
			{10 * time.Second, told("c"), ""},
			{11 * time.Second, create("f", message("5")), "merge into c 5"},
			{20 * time.Second, saying, `default/c last 11s, series false, text "5", messages (5 1, 3 2)`},
		}},
		{says: "an Event that its writer combined is an aggregate", steps: []step{
			{0, create("a", message("1"), combined), "admit"},
			{us, update("a", message("2"), combined, count(2)), "merge into a 2"},
			{10 * time.Second, saying, `default/a last 1µs, series false, text "2", messages (2 1, 1 1)`},
		}},
		{says: "an Event that is no aggregate keeps its message to itself", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{10 * time.Second, saying, `default/a last 1µs, series false, text "", messages ()`},
		}},
	}
}
