package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// common is spare with a spam bucket that all groups share.
func common(burst, reserve int) func(*store.Terms) {
	return func(t *store.Terms) {
		spare(burst, reserve)(t)
		t.SharedSpam = true
	}
}

// own puts a write under a spam bucket of its group's own.
func own(t *store.Terms) { t.SharedSpam = false }

// sharedSpam is told without merging, but for what is charged.
func sharedSpam() []story {
	return []story{
		{says: "a shared bucket is one over sources and objects", terms: common(2, 0), steps: []step{
			{0, create("a", from("1")), "admit"},
			{time.Minute, create("b", from("2")), "admit"},
			{2 * time.Minute, create("c", from("3")), "drop by spam filter until 1h0m0s"},
			{2 * time.Minute, create("d", from("1"), message("2")), "drop by spam filter until 1h0m0s"},
			{time.Hour - us, create("c", from("3")), "drop by spam filter until 1h0m0s"},
			{time.Hour, create("c", from("3")), "admit"},
			{time.Hour, create("e", from("1"), message("3")), "drop by spam filter until 2h0m0s"},
		}},
		{says: "each shared bucket has its own tokens", terms: common(1, 0), steps: []step{
			{0, create("a", from("1")), "admit"},
			{0, create("b", from("2"), under(normal)), "admit"},
			{0, create("c", from("3"), under(own)), "admit"},
			{0, create("d", from("4"), under(own)), "admit"},
			{0, create("e", from("5")), "drop by spam filter until 1h0m0s"},
			{0, create("f", from("5"), under(normal)), "drop by normal until 1h0m0s"},
			{0, create("g", from("4"), message("2"), under(own)), "drop by spam filter until 1h0m0s"},
		}},
		{says: "a shared bucket without tokens drops for ever", terms: common(0, 0), steps: []step{
			{0, create("a"), "drop by spam filter for ever"},
			{100 * time.Hour, create("a"), "drop by spam filter for ever"},
		}},
		{says: "a shared bucket that needs no time never drops", terms: func(t *store.Terms) {
			common(1, 0)(t)
			t.Spam.Every = 0
		}, steps: []step{
			{0, create("a", from("1")), "admit"},
			{0, create("b", from("2")), "admit"},
		}},
		{says: "a shared bucket is as empty as it was when all sources and objects are forgotten", terms: func(t *store.Terms) {
			common(1, 0)(t)
			t.Window, t.RepeatWindow = time.Minute, time.Minute
		}, steps: []step{
			{0, create("a", from("1")), "admit"},
			{time.Hour - us, create("b", from("2")), "drop by spam filter until 1h0m0s"},
			{time.Hour - us, create("c", from("1"), message("2")), "drop by spam filter until 1h0m0s"},
		}},
		{says: "the time in which a shared bucket becomes full keeps a name's count", terms: func(t *store.Terms) {
			common(1, 0)(t)
			t.Window, t.RepeatWindow = time.Minute, time.Minute
		}, steps: counted3(time.Hour)},
		{says: "what merges costs a token of a shared bucket where it is charged", terms: func(t *store.Terms) {
			charged(3)(t)
			t.SharedSpam = true
		}, steps: []step{
			{0, create("a", from("1")), "admit"},
			{us, create("b", from("1")), "merge into a 2"},
			{2 * us, create("c", from("2")), "admit"},
			{3 * us, create("d", from("2")), "drop by spam filter until 5m0s"},
			{4 * us, create("e", from("1")), "drop by spam filter until 5m0s"},
			{5 * time.Minute, create("f", from("1")), "merge into a 3"},
		}},
		{says: "what is new is charged once, when it is stored", terms: func(t *store.Terms) {
			charged(1)(t)
			t.SharedSpam = true
		}, steps: []step{
			{0, mutate("a", from("1")), "admit"},
			{0, validate("b", from("2")), "admit"},
			{0, mutate("c", from("3")), "admit"},
			{0, validate("c", from("3")), "drop by spam filter until 5m0s"},
		}},
		{says: "a charged merge takes nothing from quotas", terms: func(t *store.Terms) {
			charged(9)(t)
			t.SharedSpam, t.Quotas = true, []store.Bucket{bucket("namespace", 1, time.Hour)}
		}, steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{us, create("c", from("2")), "drop by namespace until 1h0m0s"},
		}},
	}
}

// sharedSpamPays is what a write pays where other buckets or reserves have a say.
func sharedSpamPays() []story {
	return []story{
		{says: "the first Event of a reason about each object passes an empty shared bucket", terms: common(1, 1), steps: []step{
			{0, create("a", from("1")), "admit"},
			{0, create("b", from("2")), "admit"},
			{0, create("c", from("2"), message("2")), "drop by spam filter until 1h0m0s"},
			{0, create("d", from("1"), message("2")), "drop by spam filter until 1h0m0s"},
			{0, create("e", from("1"), reason("Killing")), "admit"},
			{10*time.Minute - us, create("c", from("2"), message("2")), "drop by spam filter until 1h0m0s"},
			{10 * time.Minute, create("c", from("2"), message("2")), "admit"},
		}},
		{says: "what passes on a reserve takes no token of a shared bucket", terms: common(1, 1), steps: []step{
			{0, create("a", from("1")), "admit"},
			{30 * time.Minute, create("b", from("2")), "admit"},
			{time.Hour, create("c", from("3")), "admit"},
			{time.Hour, create("d", from("3"), message("2")), "drop by spam filter until 2h0m0s"},
		}},
		{says: "what a quota refuses uses up no token of a shared bucket", terms: common(1, 0), steps: []step{
			{0, create("a", from("1"), bound("none")), "drop by none for ever"},
			{0, create("b", from("2")), "admit"},
			{0, create("c", from("3")), "drop by spam filter until 1h0m0s"},
		}},
		{says: "what a shared bucket refuses uses up no quota", terms: common(1, 0), steps: []step{
			{0, create("a", from("1")), "admit"},
			{0, create("b", from("2"), bound("one")), "drop by spam filter until 1h0m0s"},
			{0, update("c", count(2), bound("one")), "merge into c 2"},
			{0, create("d", from("3"), under(func(t *store.Terms) {
				own(t)
				t.Quotas = []store.Bucket{bucket("one", 1, time.Hour)}
			})), "admit"},
		}},
		{says: "a reserve beside a shared bucket does not get past a quota", terms: common(0, 1), steps: []step{
			{0, create("a", from("1"), bound("one")), "admit"},
			{0, create("b", from("2"), bound("one")), "drop by one until 1h0m0s"},
			{0, create("c", from("2")), "admit"},
			{0, create("d", from("2"), message("2"), bound("one")), "drop by spam filter for ever"},
		}},
		{says: "an UPDATE pays a shared bucket", terms: common(2, 1), steps: []step{
			{0, create("a", from("1")), "admit"},
			{10 * time.Second, update("a", from("1"), count(2)), "admit"},
			{20 * time.Second, update("a", from("1"), count(3)), "merge into a 3"},
			{20 * time.Second, create("b", from("2")), "admit"}, // its reserve
			{20 * time.Second, create("c", from("2"), message("2")), "drop by spam filter until 1h0m0s"},
		}},
		{says: "an UPDATE that is free takes no token of a shared bucket", terms: common(1, 0), steps: []step{
			{0, update("a", from("1"), count(2), labelling), "admit"},
			{0, create("b", from("2")), "admit"},
			{0, create("c", from("3")), "drop by spam filter until 1h0m0s"},
		}},
		{says: "an UPDATE that is merged takes no token of a shared bucket", terms: common(2, 0), steps: []step{
			{0, create("a", from("1")), "admit"},
			{us, update("a", from("1"), count(2)), "merge into a 2"},
			{us, create("b", from("2")), "admit"},
			{us, create("c", from("3")), "drop by spam filter until 1h0m0s"},
		}},
		{says: "an UPDATE uses no reserve beside a shared bucket", terms: common(0, 1), steps: []step{
			{0, update("a", count(2)), "merge into a 2"},
			{0, create("b", message("2")), "admit"},
		}},
	}
}
