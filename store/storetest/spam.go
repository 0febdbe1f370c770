package storetest

import (
	"fmt"
	"time"

	"github.com/eventquota/eventquota/store"
)

// tokens makes each message an Event of its own and the spam filter hold burst tokens of an hour each.
func tokens(burst, reserve int) func(*store.Limits) {
	return func(l *store.Limits) {
		l.MaxEvents = 100
		l.Spam.Limit = store.Limit{Burst: burst, Every: time.Hour}
		l.ReservePerReason = reserve
	}
}

// charged makes merged CREATEs take tokens, of which there are burst.
func charged(burst int) func(*store.Limits) {
	return func(l *store.Limits) { l.ChargeMerged, l.Spam.Burst = true, burst }
}

// normal is another spam filter.
func normal(l *store.Limits) { l.Spam.Key, l.Spam.Name = store.KeyOf("normal"), "normal" }

func spamFilter() []story {
	return []story{
		{says: "an empty bucket drops until its next token comes", limits: tokens(2, 0), steps: []step{
			{0, create("a", message("1")), "admit"},
			{time.Minute, create("b", message("2")), "admit"},
			{2 * time.Minute, create("c", message("3")), "drop by spam filter until 1h0m0s"},
			{time.Hour - us, create("c", message("3")), "drop by spam filter until 1h0m0s (+0)"},
			{time.Hour, create("c", message("3")), "admit"},
			{time.Hour, create("d", message("4")), "drop by spam filter until 2h0m0s"},
		}},
		{says: "each source, object, user and filter has its own tokens", limits: tokens(1, 0), steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2"), under(normal)), "admit"},
			{0, create("c", message("3"), pod("other")), "admit"},
			{0, create("d", message("3"), by("mallory")), "admit"},
			{0, create("e", message("4")), "drop by spam filter until 1h0m0s"},
			{0, create("f", message("5"), under(normal)), "drop by normal until 1h0m0s"},
		}},
		{says: "what merges costs a token where it is charged", limits: charged(3), after: merged, steps: []step{
			{2 * us, create("c"), "merge into a 3"},
			{3 * us, create("d"), "drop by spam filter until 5m0s"},
			{10*time.Second + 3*us, due, "a 3 (2 merged); spam filter notice: 1 (Failed 1)"},
		}},
	}
}

func reserves() []story {
	return []story{
		{says: "the first Event of a reason passes an empty bucket, once in a window", limits: tokens(1, 1), steps: []step{
			{0, create("a", reason("BackOff"), message("1")), "admit"},
			{0, create("b", reason("BackOff"), message("2")), "drop by spam filter until 1h0m0s"},
			{0, create("c", reason("Killing"), message("3")), "admit"},
			{0, create("d", reason("Killing"), message("4")), "drop by spam filter until 1h0m0s"},
			{10*time.Minute - us, create("d", reason("Killing"), message("4")), "drop by spam filter until 1h0m0s (+0)"},
			{10 * time.Minute, create("d", reason("Killing"), message("4")), "admit"},
			{10 * time.Minute, create("e", reason("Killing"), message("5")), "drop by spam filter until 1h0m0s"},
		}},
		{says: "what passes on a reserve takes no token", limits: tokens(1, 2), steps: []step{
			{0, create("a", message("1")), "admit"},
			{30 * time.Minute, create("b", message("2")), "admit"},
			{time.Hour, each(create("c", message("3")), create("d", message("4"))), "admit"},
			{time.Hour, create("e", message("5")), "drop by spam filter until 2h0m0s"},
		}},
		{says: "at most 16 reasons have a reserve", limits: tokens(0, 1), steps: append(manyReasons(16, "admit"),
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
