package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

func repeats() []story {
	return []story{
		{says: "the same Event again merges into the first by name", steps: []step{
			{0, create("a"), "admit"},
			{time.Second, create("b"), "merge into a 2"},
			{time.Second, create("c"), "merge into a 3"},
		}},
		{says: "another message, reason, source, object or user is another Event", steps: []step{
			{0, create("a"), "admit"},
			{0, each(
				create("b", message("n")), create("c", reason("Killing")), create("d", from("scheduler")), create("e", pod("other")),
				create("f", by("mallory")),
			), "admit"},
			{0, create("g", message("n")), "merge into b 2"},
			{0, create("h", reason("Killing")), "merge into c 2"},
			{0, create("i", from("scheduler")), "merge into d 2"},
			{0, create("j", pod("other")), "merge into e 2"},
			{0, create("k", by("mallory")), "merge into f 2"},
			{0, create("l"), "merge into a 2"},
		}},
		{says: "what is pending for an Event past its repeat window still goes to it", steps: []step{
			{0, create("a"), "admit"},
			{time.Second, create("b"), "merge into a 2"},
			{2 * time.Hour, create("c"), "admit"},
			{2 * time.Hour, create("d"), "merge into c 2"},
			{2*time.Hour + 10*time.Second, due, "a 2 (1 merged); c 2 (1 merged)"},
		}},
		{says: "where nothing is merged each CREATE pays and leaves no state", limits: func(l *store.Limits) {
			tokens(2, 0)(l)
			l.Merge = false
			l.Quotas = []store.Bucket{bucket("quota", 2, time.Hour)}
			l.Spam = store.Bucket{}
		}, steps: []step{
			{0, each(create("a"), create("b")), "admit"},
			{0, create("c"), "drop by quota until 1h0m0s"},
			{0, drain, "quota notice: 1 (Failed 1)"},
		}},
	}
}

func counts() []story {
	return []story{
		{says: "a repeat counts what its name has not reported before", after: merged, steps: []step{
			{2 * us, create("b", count(3)), "merge into a 4 (+2)"},
			{3 * us, create("b", count(3)), "merge into a 4 (+0)"},
			{4 * us, create("b", count(2)), "merge into a 4 (+0)"},
			{5 * us, create("b", count(4)), "merge into a 5"},
		}},
		{says: "an unknown name that began within the time for which names are kept reports all of its count", steps: []step{
			{us, create("a"), "admit"},
			{time.Hour, create("b", count(3), firstAt(0)), "merge into a 4 (+3)"},
		}},
		{says: "one that began before reports its newest occurrence", steps: []step{
			{us, create("a"), "admit"},
			{time.Hour + us, create("b", count(3), firstAt(0)), "merge into a 2"},
			{time.Hour + us, create("b", count(4), firstAt(0)), "merge into a 3"},
		}},
		{says: "a name that was merged and is stored later reports only what is new", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b", count(3), firstAt(0)), "merge into a 4 (+3)"},
			{time.Hour + 2*us, create("b", count(4)), "admit"},
			{time.Hour + 2*us, create("c"), "merge into b 2"},
		}},
		{says: "an Event that reports nothing new is set back to what is left for it", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b", count(3), firstAt(0)), "merge into a 4 (+3)"},
			{10 * time.Second, due, "a 4 (3 merged)"},
			{10 * time.Second, written("a"), ""},
			{59 * time.Minute, create("b", count(4), message("2")), "admit"},
			{time.Hour, due, "b 1 (-3 merged)"},
		}},
		{says: "an occurrence that is far ahead of now counts as now", steps: []step{
			{0, create("a", series), "admit"},
			{time.Second, create("b", seen(10*time.Minute+2*time.Second)), "merge into a 2"},
			{time.Second, saying, "default/a last 1s, series"},
			{2 * time.Second, create("c", seen(10*time.Minute)), "merge into a 3"},
			{2 * time.Second, saying, "default/a last 10m0s, series"},
		}},
	}
}

// three makes an aggregate named c of the third distinct message.
func three() []step {
	return []step{
		{0, create("a", message("1")), "admit"},
		{0, create("b", message("2")), "admit"},
		{0, create("c", message("3")), "aggregate"},
	}
}

// aggregates take three distinct messages.
func aggregates() []story {
	return []story{
		{says: "the Event with the last distinct message becomes the aggregate", after: three, steps: []step{
			{0, create("d", message("4")), "merge into c 2"},
			{0, create("e", message("3")), "merge into c 3"},
		}},
		{says: "messages from before the aggregate go on counting their own repeats", after: three, steps: []step{
			{0, create("d", message("1")), "merge into a 2"},
			{0, create("e", message("2")), "merge into b 2"},
			{0, create("f", message("2")), "merge into b 3"},
		}},
		{says: "past the window similar Events are counted anew", steps: []step{
			{0, create("a", message("1")), "admit"},
			{us, create("b", message("2")), "admit"},
			{10*time.Minute + 2*us, create("c", message("3")), "admit"},
			{10*time.Minute + 2*us, create("d", message("4")), "admit"},
			{10*time.Minute + 2*us, create("e", message("5")), "aggregate"},
		}},
		{says: "an aggregate takes similar Events again after a quiet window", after: three, steps: []step{
			{11 * time.Minute, create("d", message("4")), "admit"},
			{11 * time.Minute, create("e", message("5")), "admit"},
			{11 * time.Minute, create("f", message("6")), "merge into c 2"},
		}},
		{says: "an aggregate created again is an aggregate still", after: three, steps: []step{
			{us, create("c", message("3"), count(2)), "aggregate"},
			{2 * us, create("d", message("4")), "merge into c 3"},
		}},
		{says: "an aggregate keeps its newest distinct messages and their counts", after: three, steps: []step{
			{us, create("d", message("4"), count(2), firstAt(0)), "merge into c 3 (+2)"},
			{2 * us, create("e", message("3")), "merge into c 4"},
			{10 * time.Second, saying, `default/c last 2µs, text "3", messages (3 2, 4 2)`},
			{10 * time.Second, written("c"), ""},
			{11 * time.Second, create("f", message("5")), "merge into c 5"},
			{20 * time.Second, saying, `default/c last 11s, text "5", messages (5 1, 3 2)`},
		}},
	}
}
