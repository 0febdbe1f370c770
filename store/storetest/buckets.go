package storetest

import (
	"fmt"
	"time"

	"github.com/eventquota/eventquota/store"
)

// spare makes each message an Event of its own and the spam bucket hold burst
// tokens of an hour each.
func spare(burst, reserve int) func(*store.Terms) {
	return func(t *store.Terms) {
		t.MaxEvents = 100
		t.Spam.Limit = store.Limit{Burst: burst, Every: time.Hour}
		t.ReservePerReason = reserve
	}
}

func spamBucket() []story {
	return []story{
		{says: "an empty bucket drops until its next token comes", terms: spare(2, 0), steps: []step{
			{0, create("a", message("1")), "admit"},
			{time.Minute, create("b", message("2")), "admit"},
			{2 * time.Minute, create("c", message("3")), "drop by spam filter until 1h0m0s"},
			{time.Hour - us, create("c", message("3")), "drop by spam filter until 1h0m0s"},
			{time.Hour, create("c", message("3")), "admit"},
			{time.Hour, create("d", message("4")), "drop by spam filter until 2h0m0s"},
		}},
		{says: "a bucket without tokens drops for ever", terms: spare(0, 0), steps: []step{
			{0, create("a"), "drop by spam filter for ever"},
			{100 * time.Hour, create("a"), "drop by spam filter for ever"},
		}},
		{says: "a bucket that needs no time never drops", terms: func(t *store.Terms) { t.Spam.Limit = store.Limit{Burst: 1} }, steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2")), "admit"},
		}},
		{says: "each bucket has its own tokens", terms: spare(1, 0), steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2"), under(normal)), "admit"},
			{0, create("c", message("3"), from("other")), "admit"},
			{0, create("d", message("4")), "drop by spam filter until 1h0m0s"},
			{0, create("e", message("5"), under(normal)), "drop by normal until 1h0m0s"},
		}},
		{says: "what merges costs no token", terms: spare(2, 0), steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("1")), "merge into a 2"},
			{0, create("c", message("2")), "admit"},
			{0, create("d", message("2")), "merge into c 2"},
		}},
		{says: "what merges costs a token where it is charged", terms: charged(3), steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{2 * us, create("c"), "merge into a 3"},
			{3 * us, create("d"), "drop by spam filter until 5m0s"},
			{10*time.Second + 3*us, due, "a 3 (2 merged); create notice: 1 (Failed 1)"},
		}},
		{says: "a charged merge takes from the spam bucket only", terms: func(t *store.Terms) {
			charged(9)(t)
			t.Quotas = []store.Bucket{bucket("namespace", 2, time.Hour)}
		}, steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{2 * us, create("c", message("2")), "admit"},
			{3 * us, create("d", reason("Killing")), "drop by namespace until 1h0m0s"},
		}},
	}
}

func normal(t *store.Terms) { t.Spam.Key, t.Spam.Name = store.KeyOf("normal"), "normal" }

func reserves() []story {
	return []story{
		{says: "the first Event of a reason passes an empty bucket, once in a window", terms: spare(1, 1), steps: []step{
			{0, create("a", reason("BackOff"), message("1")), "admit"},
			{0, create("b", reason("BackOff"), message("2")), "drop by spam filter until 1h0m0s"},
			{0, create("c", reason("Killing"), message("3")), "admit"},
			{0, create("d", reason("Killing"), message("4")), "drop by spam filter until 1h0m0s"},
			{10*time.Minute - us, create("d", reason("Killing"), message("4")), "drop by spam filter until 1h0m0s"},
			{10 * time.Minute, create("d", reason("Killing"), message("4")), "admit"},
			{10 * time.Minute, create("e", reason("Killing"), message("5")), "drop by spam filter until 1h0m0s"},
		}},
		{says: "an Event that had a token is the first of its reason", terms: spare(2, 1), steps: []step{
			{0, create("a", reason("BackOff"), message("1")), "admit"},
			{0, create("b", reason("Killing"), message("2")), "admit"},
			{0, create("c", reason("Killing"), message("3")), "drop by spam filter until 1h0m0s"},
		}},
		{says: "a reserve holds as many as it should", terms: spare(0, 2), steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3")), "drop by spam filter for ever"},
		}},
		{says: "what passes on a reserve takes no token", terms: spare(1, 2), steps: []step{
			{0, create("a", message("1")), "admit"},
			{30 * time.Minute, create("b", message("2")), "admit"},
			{time.Hour, create("c", message("3")), "admit"},
			{time.Hour, create("d", message("4")), "admit"},
			{time.Hour, create("e", message("5")), "drop by spam filter until 2h0m0s"},
		}},
		{says: "without a reserve no reason passes", terms: spare(0, 0), steps: []step{
			{0, create("a"), "drop by spam filter for ever"},
		}},
		{says: "each bucket keeps its own reserves", terms: spare(0, 1), steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2"), under(normal)), "admit"},
			{0, create("c", message("3"), under(normal)), "drop by normal for ever"},
		}},
		{says: "an UPDATE uses no reserve", terms: spare(0, 1), steps: []step{
			{0, update("a", count(2)), "merge into a 2"},
			{0, create("b", message("2")), "admit"},
		}},
		{says: "at most 16 reasons have a reserve", terms: spare(0, 1), steps: append(manyReasons(16, "admit"),
			step{0, create("x", reason("One"), message("more")), "drop by spam filter for ever"},
			step{10 * time.Minute, create("y", reason("One"), message("more")), "admit"},
		)},
	}
}

// manyReasons creates an Event of each of n reasons.
func manyReasons(n int, want string) []step {
	steps := make([]step, n)
	for i := range steps {
		name := fmt.Sprintf("r%02d", i)
		steps[i] = step{0, create(name, reason(name)), want}
	}
	return steps
}
