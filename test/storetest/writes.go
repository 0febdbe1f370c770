package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// Steps to begin with: merged merges b into a, claimed also claims the pending write, writtenOnce also completes it, and
// orphaned completes it with a not found.
func merged() []step {
	return []step{{0, create("a"), "admit"}, {us, create("b"), "merge into a 2"}}
}

func claimed() []step     { return append(merged(), step{10 * time.Second, due, "a 2 (1 merged)"}) }
func writtenOnce() []step { return append(claimed(), step{10 * time.Second, written("a"), ""}) }
func orphaned() []step    { return append(claimed(), step{11 * time.Second, missing("a"), ""}) }

// three creates a combined Event named c with the third distinct message.
func three() []step {
	return []step{
		{0, each(create("a", message("1")), create("b", message("2"))), "admit"},
		{0, create("c", message("3")), "aggregate"},
	}
}

func repeats() []story {
	return []story{
		{name: "a repeat merges into the first Event until none has come for the identical window", steps: []step{
			{0, create("a"), "admit"},
			{time.Hour, create("b"), "merge into a 2"},
			{2 * time.Hour, create("c"), "merge into a 3"},
			{3*time.Hour + us, create("d"), "admit"},
			{3*time.Hour + us, create("e"), "merge into d 2"},
			{3*time.Hour + 10*time.Second + us, due, "a 3 (2 merged); d 2 (1 merged)"}, // the pending write of a is still made
		}},
		{name: "another message, reason, source, object or user is another Event", steps: []step{
			{0, create("a"), "admit"},
			{0, each(
				create("b", message("n")), create("c", reason("Killing")), create("d", from("scheduler")), create("e", pod("other")),
				create("f", by("mallory")),
			), "admit"},
			{0, each(
				create("g", message("n")), create("h", reason("Killing")), create("i", from("scheduler")), create("j", pod("other")),
				create("k", by("mallory")), create("l"),
			), "merge into b 2; merge into c 2; merge into d 2; merge into e 2; merge into f 2; merge into a 2"},
		}},
		{name: "without merging, each CREATE takes a token of a quota and leaves no state", limits: func(l *store.Limits) {
			l.Merge, l.SpamFilter = false, store.Bucket{}
			l.Quotas = []store.Bucket{bucket("quota", 2, time.Hour)}
		}, steps: []step{
			{0, each(create("a"), create("b")), "admit"},
			{0, create("c"), "drop by quota until 1h0m0s"},
			{0, drain, "quota notice: 1 (Failed 1)"},
		}},
	}
}

func counts() []story {
	return []story{
		{name: "a repeat counts only the occurrences that its name has not reported before", after: merged, steps: []step{
			{2 * us, create("b", count(3)), "merge into a 4 (+2)"},
			{3 * us, each(create("b", count(3)), create("b", count(2))), "merge into a 4 (+0)"},
			{4 * us, create("b", count(4)), "merge into a 5"},
		}},
		{name: "an unknown name that began while names are kept reports its whole count", steps: []step{
			{us, create("a"), "admit"},
			{time.Hour, create("b", count(3), firstAt(0)), "merge into a 4 (+3)"},
			{time.Hour + us, create("c", count(3), firstAt(0)), "merge into a 5"}, // only the last occurrence, as it began earlier
			{time.Hour + us, create("c", count(4), firstAt(0)), "merge into a 6"},
		}},
		{name: "a name that was merged and is stored later reports only the new occurrences", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b", count(3), firstAt(0)), "merge into a 4 (+3)"},
			{time.Hour + 2*us, create("b", count(4)), "admit"},
			{time.Hour + 2*us, create("c"), "merge into b 2"},
		}},
		{name: "an occurrence too far in the future counts as now", steps: []step{
			{0, create("a", series), "admit"},
			{time.Second, create("b", seen(10*time.Minute+2*time.Second)), "merge into a 2"},
			{time.Second, wantContent, "default/a last 1s, series"},
			{2 * time.Second, create("c", seen(10*time.Minute)), "merge into a 3"},
			{2 * time.Second, wantContent, "default/a last 10m0s, series"},
		}},
	}
}

// aggregates has stories about combined Events. They start with the third distinct message.
func aggregates() []story {
	return []story{
		{name: "the Event with the last distinct message becomes the combined one, and earlier ones count their own repeats", after: three, steps: []step{
			{0, create("d", message("4")), "merge into c 2"},
			{0, create("e", message("3")), "merge into c 3"},
			{0, create("f", message("1")), "merge into a 2"},
			{0, create("g", message("2")), "merge into b 2"},
			{0, create("h", message("2")), "merge into b 3"},
		}},
		{name: "after the window, similar Events are counted again from zero", steps: []step{
			{0, create("a", message("1")), "admit"},
			{us, create("b", message("2")), "admit"},
			{10*time.Minute + 2*us, each(create("c", message("3")), create("d", message("4"))), "admit"},
			{10*time.Minute + 2*us, create("e", message("5")), "aggregate"},
		}},
		{name: "a combined Event keeps its latest distinct messages and their counts", after: three, steps: []step{
			{us, create("d", message("4"), count(2), firstAt(0)), "merge into c 3 (+2)"},
			{2 * us, create("e", message("3")), "merge into c 4"},
			{10 * time.Second, wantContent, `default/c last 2µs, text "3", messages (3 2, 4 2)`},
			{10 * time.Second, written("c"), ""},
			{11 * time.Second, create("f", message("5")), "merge into c 5"},
			{20 * time.Second, wantContent, `default/c last 11s, text "5", messages (5 1, 3 2)`},
		}},
		{name: "a drop by the spam filter counts as a similar Event, and one by a quota does not", steps: []step{
			{0, each(create("a", message("1"), withQuota("none")), create("b", message("2"), withQuota("none"))), "drop by none for ever"},
			{0, each(create("c", message("1"), under(noTokens)), create("d", message("2"), under(noTokens))), "drop by spam filter for ever"},
			{0, create("e", message("3")), "aggregate"},
		}},
	}
}

func noTokens(l *store.Limits) { l.SpamFilter.Burst = 0 }

func updates() []story {
	return []story{
		{name: "an UPDATE of an Event with a pending write merges", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", count(2)), "merge into a 2"},
			{time.Minute, update("a", count(5)), "merge into a 5 (+3)"},
			{time.Minute, due, "a 5 (0 merged)"},
			{2 * time.Minute, update("a", count(6)), "merge into a 6"},
		}},
		{name: "an UPDATE is admitted again a write interval after the settler's write", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", count(2)), "merge into a 2"},
			{10 * time.Second, settle, "a 2 (0 merged)"},
			{20*time.Second - us, update("a", count(2), stored(2), content("touch")), "merge into a 2 (+0)"},
			{20 * time.Second, settle, "a 2 (0 merged)"},
			{30 * time.Second, update("a", count(3), stored(2)), "admit"},
		}},
		{name: "an UPDATE that reverts the message always merges, and its text is not kept", after: three, steps: []step{
			{time.Minute, update("c", message("3"), count(2), reverting), "merge into c 2"},
			{time.Minute, wantContent, `default/c last 1m0s, text "3", messages (3 1)`},
			{time.Minute, written("c"), ""},
			{10 * time.Hour, update("c", message("3"), count(3), stored(2), reverting), "merge into c 3"},
		}},
		{name: "the same UPDATE again is admitted without another token", limits: tokens(3, 0), steps: []step{
			{0, create("a"), "admit"},
			{10 * time.Second, each(update("a", count(2)), update("a", count(2))), "admit"},
			{20 * time.Second, update("a", count(3), stored(2)), "admit"},
			{30 * time.Second, update("a", count(4), stored(3)), "merge into a 4"},
		}},
	}
}

// repeatedCounts has stories about counts that are sent again: by the same request, or by a client that cannot know that its last
// count was merged.
func repeatedCounts() []story {
	const s = time.Second
	return []story{
		{name: "a count that is repeated with a later stamp is one more occurrence, and with the same stamp none", steps: []step{
			{0, create("a", seen(0)), "admit"},
			{s, update("a", count(2), seen(s)), "merge into a 2"},
			{s, update("a", count(2), seen(s)), "merge into a 2 (+0)"},
			{2 * s, update("a", count(2), seen(2*s)), "merge into a 3"},
			{3 * s, update("a", count(2), seen(s)), "merge into a 3 (+0)"},
			{3 * s, update("a", count(1), seen(3*s)), "merge into a 4"},
			{4 * s, update("a", count(5), seen(4*s)), "merge into a 7 (+3)"},
			{5 * s, update("a", count(5)), "merge into a 7 (+0)"},
			{10 * s, due, "a 7 (2 merged)"},
		}},
		{name: "a client that reads the count, adds one and writes it counts on from what was merged", steps: []step{
			{0, create("a", seen(0)), "admit"},
			{s, create("b", seen(s)), "merge into a 2"},
			{2 * s, update("a", count(2), seen(2*s), storedStamp(0)), "merge into a 3"},
			{3 * s, update("a", count(2), seen(3*s), storedStamp(0)), "merge into a 4"},
			{10 * s, settle, "a 4 (2 merged)"},
			{11 * s, update("a", count(5), stored(4), storedMerged(2), seen(11*s), storedStamp(3*s)), "merge into a 5"},
			{11 * s, update("a", count(5), stored(4), storedMerged(2), seen(11*s), storedStamp(3*s)), "merge into a 5 (+0)"},
			{12 * s, update("a", count(5), stored(4), storedMerged(2), seen(12*s), storedStamp(3*s)), "merge into a 6"},
			{30 * s, settle, "a 6 (3 merged)"},
		}},
		{name: "of an Event that the store does not know, the stored stamp distinguishes them", steps: []step{
			{0, update("a", count(4), stored(4), seen(s), storedStamp(s), reverting), "merge into a 4 (+0)"},
			{0, update("b", message("2"), count(4), stored(4), seen(2*s), storedStamp(s), reverting), "merge into b 5"},
		}},
		{name: "a count that is repeated under a refused name is one more occurrence, too", steps: []step{
			{0, create("a", seen(0)), "admit"},
			{s, create("b", seen(s)), "merge into a 2"},
			{s, create("b", seen(s)), "merge into a 2 (+0)"},
			{2 * s, create("b", seen(2*s)), "merge into a 3"},
			{3 * s, create("b", count(2), seen(3*s)), "merge into a 4"},
			{4 * s, create("c", message("2"), seen(4*s), under(noTokens)), "drop by spam filter for ever"},
			{5 * s, create("c", message("2"), seen(5*s), under(noTokens)), "drop by spam filter for ever"},
			{5 * s, create("c", message("2"), seen(5*s), under(noTokens)), "drop by spam filter for ever (+0)"},
			{10 * s, drain, "a 4 (3 merged); spam filter notice: 2 (Failed 2)"},
		}},
		{name: "a repeated count that is written first leaves the sum to the settler", steps: []step{
			{0, create("a", seen(0)), "admit"},
			{20 * s, update("a", count(2), seen(20*s)), "admit"},
			{40 * s, update("a", count(2), stored(2), seen(40*s), storedStamp(20*s)), "admit"},
			{41 * s, update("a", count(2), stored(2), seen(41*s), storedStamp(40*s)), "merge into a 4"},
			{50 * s, due, "a 4 (2 merged)"},
		}},
		{name: "a quota that drops an UPDATE reports a repeated count once", steps: []step{
			{0, create("a", seen(0)), "admit"},
			{s, update("a", notByRecorder, count(2), seen(s), withQuota("none")), "drop by none for ever"},
			{2 * s, update("a", notByRecorder, count(2), seen(2*s), withQuota("none")), "drop by none for ever"},
			{2 * s, update("a", notByRecorder, count(2), seen(2*s), withQuota("none")), "drop by none for ever (+0)"},
			{3 * s, drain, "none notice: 2 (Failed 2)"},
		}},
	}
}

func otherUpdates() []story {
	annotating := func(n string) detail { return func(f *facts) { notByRecorder(f); content(n)(f) } }
	return []story{
		{name: "it takes a token of each quota and none of the spam filter, and is refused if a quota is empty", limits: tokens(1, 0), steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", annotating("1"), withQuota("one")), "admit"},
			{2 * us, update("a", annotating("2"), withQuota("two", "one")), "drop by one until 1h0m0.000001s (+0)"},
			{3 * us, each(create("b", pod("2"), withQuota("two")), create("c", pod("3"), withQuota("two"))), "admit"},
			{time.Hour + us, update("a", annotating("3"), withQuota("one")), "admit"},
		}},
		{name: "it takes a token once for each new content", steps: []step{
			{0, create("a"), "admit"},
			{us, each(update("a", annotating("1"), withQuota("one")), update("a", annotating("1"), withQuota("one"))), "admit"},
			{2 * us, update("a", annotating("2"), withQuota("one")), "drop by one until 1h0m0.000001s (+0)"},
			{3 * us, update("a", annotating("1"), withQuota("one")), "admit"},
			{4 * us, many(1000, func(i int) action { return update("a", annotating(number(i)), withQuota("one")) }), "drop by one until 1h0m0.000001s (+0)"},
		}},
		{name: "the new occurrences in its count are reported once", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", notByRecorder, count(3)), "admit"},
			{2 * us, create("b"), "merge into a 4"},
			{3 * us, update("a", notByRecorder, count(5), stored(3), withQuota("none")), "drop by none for ever (+2)"},
			{4 * us, update("a", notByRecorder, count(5), stored(3), content("again"), withQuota("none")), "drop by none for ever (+0)"},
			{5 * us, update("c", notByRecorder, count(4), withQuota("none")), "drop by none for ever (+3)"},
			{5 * us, update("c", notByRecorder, count(4), withQuota("none")), "drop by none for ever (+0)"},
			{5 * us, drain, "a 4 (-1 merged); none notice: 5 (Failed 5)"},
		}},
		{name: "a count that it lowers is restored", after: writtenOnce, steps: []step{
			{20 * time.Second, update("a", notByRecorder, count(1), stored(2), storedMerged(1)), "admit"},
			{30 * time.Second, onTime(due), "a 2 (1 merged)"},
		}},
		{name: "the settler reads the Event again after it", after: writtenOnce, steps: []step{
			{11 * time.Second, create("c"), "merge into a 3"},
			{11 * time.Second, wantConditions, `a uid "a-uid" version "1" written 2 exact`},
			{12 * time.Second, update("a", notByRecorder, count(2), stored(2), storedMerged(1)), "admit"},
			{12 * time.Second, wantConditions, `a uid "a-uid" version "" written 2 exact`},
		}},
	}
}

// unknown has stories about Events that the store learns of by an UPDATE, or by a read of the settler.
func unknown() []story {
	return []story{
		{name: "an Event is known after its UPDATE", steps: []step{
			{0, update("a", count(5), stored(4)), "admit"},
			{us, create("b"), "merge into a 6"},
			{2 * us, update("a", count(6), stored(5)), "merge into a 7"},
			{10 * time.Second, due, "a 7 (1 merged)"},
		}},
		{name: "its annotation counts: merged, overwritten by its recorder, or partly reported elsewhere", steps: []step{
			{0, update("a", count(5), stored(10), storedMerged(6)), "merge into a 11"},
			{0, update("b", message("2"), count(12), stored(11), storedMerged(30), overwritten), "merge into b 42"},
			{0, update("c", message("3"), count(5), stored(2), storedMerged(-2)), "merge into c 3"},
			{10 * time.Second, due, "a 11 (6 merged); b 42 (30 merged); c 3 (-2 merged)"},
		}},
		{name: "occurrences that are reported elsewhere are subtracted from an Event that was stored without a decision", after: merged, steps: []step{
			{2 * us, update("b", count(3), stored(2)), "merge into b 2"},
			{2 * us, drain, "a 2 (1 merged); b 2 (-1 merged)"},
		}},
		{name: "a higher count that the settler has read is adopted", after: claimed, steps: []step{
			{10 * time.Second, written("a", store.Stored{Count: 9, Merged: 4}), ""},
			{11 * time.Second, create("c"), "merge into a 10"},
			{20 * time.Second, due, "a 10 (5 merged)"},
		}},
	}
}
