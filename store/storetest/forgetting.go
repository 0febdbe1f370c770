package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// forgetting is what remains of a source and object that was quiet for long,
// and what does not. The longest of the three times that count is an hour.
func forgetting() []story {
	lasting := func(window, repeat, refill time.Duration) func(*store.Terms) {
		return func(t *store.Terms) {
			t.MaxEvents, t.Window, t.RepeatWindow = 100, window, repeat
			t.Spam.Limit = store.Limit{Burst: 4, Every: refill / 4}
		}
	}
	short := under(func(t *store.Terms) {
		lasting(time.Second, time.Second, time.Second)(t)
		normal(t)
	})
	return []story{
		{says: "the repeat window keeps a name's count", terms: lasting(time.Minute, time.Hour, time.Minute), steps: counted3(time.Hour)},
		{says: "the window keeps a name's count", terms: lasting(time.Hour, time.Minute, time.Minute), steps: counted3(time.Hour)},
		{says: "the spam bucket keeps a name's count", terms: lasting(time.Minute, time.Minute, time.Hour), steps: counted3(time.Hour)},
		{says: "the longest time of all writes counts", terms: lasting(time.Hour, time.Hour, time.Hour), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b", count(2)), "merge into a 3"},
			{0, drain, "a 3 (2 merged)"},
			{0, told("a"), ""},
			{us, create("c", message("2"), short), "admit"},
			{time.Hour, create("b", count(3), message("3")), "admit"},
			{time.Hour, create("d", message("3")), "merge into b 2"},
		}},
		{says: "what is owed keeps a group", terms: lasting(time.Minute, time.Minute, time.Minute), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge into a 2"},
			{time.Hour, create("b", count(2), message("2")), "admit"},
			{time.Hour, create("c", message("2")), "merge into b 2"},
		}},
		{says: "a group of which nothing is owed any more is forgotten", terms: lasting(time.Minute, time.Minute, time.Minute), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge into a 2"},
			{time.Hour, due, "a 2 (1 merged)"},
			{time.Hour, told("a"), ""},
			{time.Hour, create("b", count(2)), "admit"},
			{time.Hour, create("c"), "merge into b 3"},
		}},
		{says: "late news of a group that is forgotten tells nothing", terms: lasting(time.Minute, time.Minute, time.Minute), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge into a 2"},
			{10 * time.Second, due, "a 2 (1 merged)"},
			{10 * time.Second, told("a"), ""},
			{time.Minute + us, told("a"), ""},
			{time.Hour, drain, ""},
		}},
	}
}

// counted3 merges a name that tells 2 of its occurrences, and lets it come back
// with 3: just as the group may be forgotten, and a moment later.
func counted3(lasts time.Duration) []step {
	return []step{
		{0, create("a"), "admit"},
		{0, create("b", count(2)), "merge into a 3"},
		{0, drain, "a 3 (2 merged)"},
		{0, told("a"), ""},
		{lasts, create("b", count(3), message("2")), "admit"},
		{lasts, create("c", message("2")), "merge into b 2"},
		{lasts, drain, "b 2 (-1 merged)"},
		{lasts, told("b"), ""},
		{2*lasts + us, create("c", count(4), message("3")), "admit"},
		{2*lasts + us, create("d", message("3")), "merge into c 5"},
	}
}

// theClock is what moments and durations count for that are no whole number of
// microseconds.
func theClock() []story {
	tiny := func(t *store.Terms) {
		t.MaxEvents, t.RepeatWindow, t.FlushInterval = 100, us+1, us+1
		t.Spam.Limit = store.Limit{Burst: 1, Every: 1}
		t.Quotas = []store.Bucket{bucket("quota", 1, us+1)}
	}
	ages := func(t *store.Terms) {
		t.Window, t.RepeatWindow, t.FlushInterval = 1<<63-1, 1<<63-1, 1<<63-1
		t.Spam.Limit = store.Limit{Burst: 1<<63 - 1, Every: 1 << 52 * us}
	}
	return []story{
		{says: "a moment is cut", terms: spare(1, 0), steps: []step{
			{us - 1, create("a"), "admit"},
			{2*us - 1, create("b", message("2")), "drop by spam filter until 1h0m0s"},
			{time.Hour, create("b", message("2")), "admit"},
			{time.Hour + us - 1, create("c"), "merge into a 2"},
			{time.Hour + us, create("d"), "merge into a 3"},
		}},
		{says: "durations are rounded up", terms: tiny, steps: []step{
			{0, create("a", message("1")), "admit"},
			{us, create("b", message("2")), "drop by quota until 2µs"},
			{2*us - 1, create("c", message("1")), "merge into a 2"},
			{3*us + 999, create("d", message("1")), "merge into a 3"},
			{3*us + 999, due, "a 3 (2 merged); create notice: 1 (Failed 1)"},
		}},
		{says: "a look ahead is rounded up", steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge into a 2"},
			{10*time.Second - 2*us, soon(us), ""},
			{10*time.Second - 2*us, soon(us + 1), "a 2 (1 merged)"},
		}},
		{says: "the newest occurrence is told in whole microseconds", steps: []step{
			{0, create("a", seen(2*us-1)), "admit"},
			{0, create("b", seen(2*us-2)), "merge into a 2"},
			{time.Minute, saying, `default/a last 1µs, series false, text "", messages ()`},
		}},
		{says: "durations may be as long as durations get", terms: ages, steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{1 << 50 * us, create("c"), "merge into a 3"},
			{1 << 50 * us, create("d", message("2")), "drop by spam filter until " + (1 << 52 * us).String()},
			{1 << 50 * us, soon(3<<50*us - us), ""},
			{1 << 50 * us, soon(3 << 50 * us), "a 3 (2 merged)"},
		}},
		{says: "times below zero are none", terms: func(t *store.Terms) {
			t.MaxEvents, t.Window, t.RepeatWindow, t.FlushInterval = 100, -1, -time.Hour, -time.Hour
			t.Spam.Every = -1
		}, steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge into a 2"},
			{0, due, "a 2 (1 merged)"},
			{0, told("a"), ""},
			{us, create("c"), "admit"},
		}},
	}
}
