package rules_test

import (
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

func TestComplete(t *testing.T) {
	pending := []step{
		{0, create("a"), "admit"},
		{us, create("b"), "merge into a 2"},
		{time.Minute, due, "a 2 (1 merged)"},
	}
	with := func(more ...step) []step { return append(append([]step{}, pending...), more...) }
	run(t, []story{
		{says: "what the Event says is adopted where it is more", steps: with(
			step{time.Minute, found("a", store.Stored{Count: 7, Merged: 3}), ""},
			step{time.Hour, create("c"), "merge into a 8"},
			step{time.Hour, drain, "a 8 (4 merged)"},
		)},
		{says: "what merged during the write stays pending", steps: with(
			step{time.Minute, create("c"), "merge into a 3"},
			step{time.Minute, written("a"), ""},
			step{time.Hour, drain, "a 3 (2 merged)"},
		)},
		{says: "an Event created again since the claim is neither missing nor another's", steps: with(
			step{2 * time.Minute, create("a", count(2)), "admit"},
			step{2 * time.Minute, notFound("a"), ""},
			step{2 * time.Minute, taken("a"), ""},
			step{2 * time.Minute, rejected("a"), ""},
			step{time.Hour, drain, "a 3 (1 merged)"},
			step{time.Hour, written("a"), ""},
			step{time.Hour, create("c"), "merge into a 4"},
		)},
		{says: "the count of an Event that is not found goes on with the next", steps: with(
			step{2 * time.Minute, notFound("a"), ""},
			step{3 * time.Minute, create("c"), "admit"},
			step{time.Hour, drain, "c 3 (2 merged)"},
		)},
		{says: "and into a notice when none comes", steps: with(
			step{2 * time.Minute, notFound("a"), ""},
			step{12*time.Minute - us, due, ""},
			step{12 * time.Minute, due, "nobody 2 (2 merged)"},
			step{12 * time.Minute, notFound("nobody"), ""},
			step{time.Hour, drain, "notice 1 (Failed 1)"},
		)},
		{says: "one that is not found twice waits as long", steps: with(
			step{2 * time.Minute, notFound("a"), ""},
			step{3 * time.Minute, notFound("a"), ""},
			step{4 * time.Minute, create("c"), "admit"},
			step{time.Hour, drain, "c 3 (2 merged)"},
		)},
		{says: "a next one that comes while that is written keeps it", steps: with(
			step{2 * time.Minute, notFound("a"), ""},
			step{12 * time.Minute, due, "nobody 2 (2 merged)"},
			step{12 * time.Minute, create("c"), "admit"},
			step{12 * time.Minute, notFound("nobody"), ""},
			step{time.Hour, drain, "c 3 (2 merged)"},
		)},
		{says: "a name that another Event has leaves no state from then on", steps: with(
			step{2 * time.Minute, taken("a"), ""},
			step{3 * time.Minute, create("a", message("2")), "admit"},
			step{3 * time.Minute, create("b", message("2")), "admit"},
			step{time.Hour, drain, "nobody 2 (2 merged)"},
		)},
		{says: "what an Event rejects goes into a notice, and what merges later to the Event", steps: with(
			step{time.Minute, rejected("a"), ""},
			step{time.Hour, drain, "notice 1 (Failed 1)"},
			step{time.Hour, create("c"), "merge into a 2"},
			step{time.Hour, drain, "a 2 (1 merged); notice 1 (Failed 1)"},
		)},
		{says: "a write that fails is put off, twice as long each time", steps: with(
			step{time.Minute, failed("a"), ""},
			step{90*time.Second - us, due, ""},
			step{90 * time.Second, due, "a 2 (1 merged)"},
			step{90 * time.Second, failed("a"), ""},
			step{91 * time.Second, create("c"), "merge into a 3"},
			step{150*time.Second - us, due, ""},
			step{150 * time.Second, due, "a 3 (2 merged)"},
			step{150 * time.Second, failing("a"), "1m0s"},
		)},
		{says: "what is given up is lost, and no more than that", steps: with(
			step{time.Minute, create("c"), "merge into a 3"},
			step{time.Minute, givenUp("a"), ""},
			step{time.Hour, drain, "a 2 (1 merged)"},
			step{time.Hour, create("d"), "merge into a 3"},
		)},
		{says: "a notice that is not found is created anew, with all that it reports", limits: spare(0, 0), steps: []step{
			{0, create("a"), "drop by spam filter for ever telling 1"},
			{10 * time.Second, due, "notice 1 (Failed 1)"},
			{10 * time.Second, written("notice"), ""},
			{time.Minute, create("b"), "drop by spam filter for ever telling 1"},
			{time.Minute, due, "notice 2 (Failed 2)"},
			{time.Minute, notFound("notice"), ""},
			{time.Hour, due, "notice 2 (Failed 2)"},
			{time.Hour, unreported("notice"), "2"},
		}},
		{says: "a clock that was hours ahead delays nothing by hours", steps: []step{
			{2 * time.Hour, create("a"), "admit"},
			{2 * time.Hour, create("b"), "merge into a 2"},
			{0, create("c"), "merge into a 3"},
			{time.Minute, due, "a 3 (2 merged)"},
			{time.Minute, written("a"), ""},
			{time.Minute, create("d"), "merge into a 4"},
			{10 * time.Minute, due, "a 4 (3 merged)"},
		}},
	})
}

func failing(name string) func(*scene) string {
	return func(sc *scene) string { return sc.claimed[name].Failing.Sub(epoch()).String() }
}

func unreported(name string) func(*scene) string {
	return func(sc *scene) string {
		p := sc.claimed[name]
		return time.Duration(p.Unreported()).String()[:1]
	}
}
