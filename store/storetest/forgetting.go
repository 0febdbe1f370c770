package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// forgetting is what remains of a group that was quiet for long, and what does not.
func forgetting() []story {
	lasting := func(window, repeat, refill time.Duration) func(*store.Limits) {
		return func(l *store.Limits) {
			l.MaxEvents, l.Window, l.RepeatWindow = 100, window, repeat
			l.Spam.Limit = store.Limit{Burst: 4, Every: refill / 4}
		}
	}
	// returning creates an Event again after a time, which is known to have one more occurrence or not.
	returning := func(after time.Duration, want string) []step {
		return []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge into a 2"},
			{0, drain, "a 2 (1 merged)"},
			{0, written("a"), ""},
			{after, create("a", count(2)), "admit"},
			{after, create("c"), want},
		}
	}
	const known, forgotten = "merge into a 4", "merge into a 3"
	minutely := lasting(time.Minute, time.Minute, time.Minute)
	return []story{
		{says: "the repeat window keeps a group", limits: lasting(time.Minute, time.Hour, time.Minute), steps: returning(time.Hour, known)},
		{says: "after the longest of them it is forgotten", limits: lasting(time.Hour, time.Minute, time.Hour), steps: returning(time.Hour+us, forgotten)},
		{says: "a group of which nothing is pending any more is forgotten", limits: minutely, steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge into a 2"},
			{time.Hour, due, "a 2 (1 merged)"},
			{time.Hour, written("a"), ""},
			{time.Hour, create("a", count(2)), "admit"},
			{time.Hour, create("c"), forgotten},
		}},
		{says: "a refused name is kept for the repeat window", limits: lasting(time.Hour, time.Minute, time.Hour), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge into a 2"},
			{time.Minute, create("z", count(3)), "merge into a 3"},
			{time.Minute, create("b", count(5)), "merge into a 7 (+4)"},
			{time.Minute, create("c", message("2")), "admit"},
			{2*time.Minute + time.Second, create("b", count(9), message("2")), "admit"},
			{2*time.Minute + time.Second, create("d", message("2")), "merge into b 10"},
		}},
	}
}

// theClock is what moments and durations count for that are not as they should be.
func theClock() []story {
	tiny := func(l *store.Limits) {
		l.MaxEvents, l.RepeatWindow, l.WriteInterval, l.MaxWriteInterval = 100, us+1, us+1, us+1
		l.Spam.Limit = store.Limit{Burst: 1, Every: 1}
		l.Quotas = []store.Bucket{bucket("quota", 1, us+1)}
	}
	ages := func(l *store.Limits) {
		l.Window, l.RepeatWindow, l.WriteInterval, l.MaxWriteInterval = 1<<63-1, 1<<63-1, 1<<63-1, 1<<63-1
		l.Spam.Limit = store.Limit{Burst: 1<<63 - 1, Every: 1 << 52 * us}
	}
	return []story{
		{says: "durations are rounded up", limits: tiny, steps: []step{
			{0, create("a", message("1")), "admit"},
			{us, create("b", message("2")), "drop by quota until 2µs"},
			{2 * us, create("c", message("1")), "merge into a 2"},
			{4 * us, create("d", message("1")), "merge into a 3"},
			{4 * us, due, "a 3 (2 merged); quota notice: 1 (Failed 1)"},
		}},
		{says: "durations may be as long as durations get", limits: ages, after: merged, steps: []step{
			{1 << 50 * us, create("c"), "merge into a 3"},
			{1 << 50 * us, create("d", message("2")), "drop by spam filter until " + (1 << 52 * us).String()},
			{1 << 50 * us, soon(3<<50*us - us), ""},
			{1 << 50 * us, soon(3 << 50 * us), "a 3 (2 merged)"},
		}},
		{says: "times below zero are none", limits: func(l *store.Limits) {
			l.MaxEvents, l.Window, l.RepeatWindow, l.WriteInterval, l.MaxWriteInterval = 100, -1, -time.Hour, -time.Hour, -1
			l.Spam.Every = -1
		}, steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge into a 2"},
			{0, due, "a 2 (1 merged)"},
			{0, written("a"), ""},
			{us, create("c"), "admit"},
		}},
	}
}

// waits are ten seconds, which double up to eighty.
func waits() []story {
	doubling := func(l *store.Limits) { l.MaxWriteInterval = 80 * time.Second }
	merge := func(name string) action { return create(name) }
	const s = time.Second
	return []story{
		{says: "each write doubles the wait, up to the longest", limits: doubling, steps: []step{
			{0, create("a"), "admit"},
			{1 * s, merge("b"), "merge into a 2"},
			{10*s - us, due, ""},
			{10 * s, due, "a 2 (1 merged)"},
			{10 * s, written("a"), ""},
			{11 * s, merge("c"), "merge into a 3"},
			{30*s - us, due, ""},
			{30 * s, due, "a 3 (2 merged)"},
			{30 * s, written("a"), ""},
			{31 * s, merge("d"), "merge into a 4"},
			{70*s - us, due, ""},
			{70 * s, due, "a 4 (3 merged)"},
			{70 * s, written("a"), ""},
			{71 * s, merge("e"), "merge into a 5"},
			{150*s - us, due, ""},
			{150 * s, due, "a 5 (4 merged)"},
		}},
		{says: "the longest wait without a write halves it", limits: doubling, steps: []step{
			{0, create("a"), "admit"},
			{1 * s, merge("b"), "merge into a 2"},
			{10 * s, due, "a 2 (1 merged)"},
			{10 * s, written("a"), ""},
			{180 * s, merge("c"), "merge into a 3"},
			{180 * s, due, "a 3 (2 merged)"},
			{180 * s, written("a"), ""},
			{181 * s, merge("d"), "merge into a 4"},
			{200*s - us, due, ""},
			{200 * s, due, "a 4 (3 merged)"},
		}},
	}
}
