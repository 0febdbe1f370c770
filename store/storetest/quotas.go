package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// bound puts a write under quotas of an hour a token, by name: "one" holds one
// token, "two" two.
func bound(names ...string) detail {
	sizes := map[string]int{"none": 0, "one": 1, "two": 2}
	return under(func(t *store.Terms) {
		for _, name := range names {
			t.Quotas = append(t.Quotas, bucket(name, sizes[name], time.Hour))
		}
	})
}

// quotas are told without merging: each Event has its own message.
func quotas() []story {
	return []story{
		{says: "a quota is shared by sources and objects", terms: spare(9, 0), steps: []step{
			{0, create("a", from("1"), bound("two")), "admit"},
			{0, create("b", from("2"), bound("two")), "admit"},
			{time.Minute, create("c", from("3"), bound("two")), "drop by two until 1h0m0s"},
			{time.Hour, create("c", from("3"), bound("two")), "admit"},
		}},
		{says: "what one quota refuses uses up no other quota", terms: spare(9, 0), steps: []step{
			{0, create("a", message("1"), bound("one")), "admit"},
			{0, create("b", message("2"), bound("two", "one")), "drop by one until 1h0m0s"},
			{0, create("c", message("3"), bound("one", "two")), "drop by one until 1h0m0s"},
			{0, create("d", message("4"), bound("two")), "admit"},
			{0, create("e", message("5"), bound("two")), "admit"},
			{0, create("f", message("6"), bound("two")), "drop by two until 1h0m0s"},
		}},
		{says: "what a quota refuses uses up no spam token", terms: spare(1, 0), steps: []step{
			{0, create("a", message("1"), bound("none")), "drop by none for ever"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3")), "drop by spam filter until 1h0m0s"},
		}},
		{says: "what a quota refuses uses up no reserve", terms: spare(0, 1), steps: []step{
			{0, create("a", message("1"), bound("none")), "drop by none for ever"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3")), "drop by spam filter for ever"},
		}},
		{says: "what the spam bucket refuses uses up no quota", terms: spare(1, 0), steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2"), bound("one")), "drop by spam filter until 1h0m0s"},
			{0, create("c", message("3"), from("other"), bound("one")), "admit"},
		}},
		{says: "a reserve does not get past a quota", terms: spare(0, 1), steps: []step{
			{0, create("a", message("1"), bound("one")), "admit"},
			{0, create("b", reason("Killing"), bound("one")), "drop by one until 1h0m0s"},
		}},
		{says: "an UPDATE pays every quota", terms: spare(9, 0), steps: []step{
			{0, create("a"), "admit"},
			{10 * time.Second, update("a", count(2), bound("two", "one")), "admit"},
			{20 * time.Second, update("a", count(3), bound("two", "one")), "merge into a 3"},
			{20 * time.Second, create("b", message("2"), bound("two")), "admit"},
			{20 * time.Second, create("c", message("3"), bound("two")), "drop by two until 1h0m10s"},
		}},
		{says: "what merges pays no quota", terms: spare(9, 0), steps: []step{
			{0, create("a", bound("one")), "admit"},
			{0, create("b", bound("one")), "merge into a 2"},
		}},
	}
}
