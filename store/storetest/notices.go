package storetest

import (
	"fmt"
	"strings"
	"time"
)

// notices are told by a spam bucket without tokens, unless they say otherwise.
func notices() []story {
	const dropped = "drop by spam filter for ever"
	none := spare(0, 0)
	return []story{
		{says: "what is dropped is told by reason, a flush interval after the first", terms: none, steps: []step{
			{0, create("a", reason("BackOff"), message("1")), dropped},
			{time.Second, create("b", reason("Killing"), message("2")), dropped},
			{2 * time.Second, create("c", reason("BackOff"), message("3")), dropped},
			{10*time.Second - us, due, ""},
			{10 * time.Second, due, "create notice: 3 (BackOff 2, Killing 1)"},
		}},
		{says: "a notice says where and about what", terms: none, steps: []step{
			{0, create("a"), dropped},
			{time.Second, create("b"), dropped},
			{10 * time.Second, saying, `default/notice last 1s, series false, text "", messages (), first 0s, ` +
				`about {APIVersion:v1 Kind:Pod Namespace:default Name:pod UID:pod-uid Component:kubelet Host:node}`},
		}},
		{says: "a notice is brought up to date with absolute counts", terms: none, steps: []step{
			{0, create("a"), dropped},
			{10 * time.Second, due, "create notice: 1 (Failed 1)"},
			{11 * time.Second, create("b"), dropped},
			{12 * time.Second, told("notice"), ""},
			{22*time.Second - us, due, ""},
			{22 * time.Second, due, "update notice: 2 (Failed 2)"},
			{22 * time.Second, told("notice"), ""},
			{time.Hour, drain, ""},
		}},
		{says: "each window has a notice of its own", terms: none, steps: []step{
			{0, create("a"), dropped},
			{10*time.Minute - us, create("b"), dropped},
			{10*time.Minute - us, due, "create notice: 2 (Failed 2)"},
			{10*time.Minute - us, told("notice"), ""},
			{10 * time.Minute, create("c"), dropped},
			{11 * time.Minute, due, "create notice 2: 1 (Failed 1)"},
		}},
		{says: "a notice that is still owed outlives its window", terms: none, steps: []step{
			{0, create("a"), dropped},
			{10 * time.Minute, create("b"), dropped},
			{11 * time.Minute, due, "create notice 2: 1 (Failed 1); create notice: 1 (Failed 1)"},
		}},
		{says: "each source and object has a notice of its own", terms: none, steps: []step{
			{0, create("a"), dropped},
			{0, create("b", from("other")), dropped},
			{10 * time.Second, due, "create notice 2: 1 (Failed 1); create notice: 1 (Failed 1)"},
		}},
		{says: "a dropped name that comes again tells what is new", terms: none, steps: []step{
			{0, create("a"), dropped},
			{us, create("a", count(2)), dropped},
			{2 * us, create("a", count(2)), dropped},
			{3 * us, create("a", count(5)), dropped},
			{10 * time.Second, due, "create notice: 5 (Failed 5)"},
		}},
		{says: "what merged into an Event that is then dropped is dropped with it", terms: spare(1, 0), steps: []step{
			{0, create("a", message("1")), "admit"},
			{us, mutate("b"), "admit"},
			{2 * us, create("c"), "merge into b 2"},
			{3 * us, validate("b"), "drop by spam filter until 1h0m0s"},
			{4 * us, mutate("d"), "admit"},
			{10*time.Second + 3*us, due, "create notice: 2 (Failed 2)"},
		}},
		{says: "what was dropped with an Event is not counted again", terms: spare(1, 0), steps: []step{
			{0, create("a", message("1")), "admit"},
			{us, mutate("b"), "admit"},
			{2 * us, create("c"), "merge into b 2"},
			{3 * us, validate("b"), "drop by spam filter until 1h0m0s"},
			{time.Hour, create("b", count(2)), "admit"},
			{time.Hour, create("c", count(2)), "merge into b 2"},
		}},
		{says: "a name that was dropped and is stored later tells only what is new", terms: spare(1, 0), steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b"), "drop by spam filter until 1h0m0s"},
			{time.Hour, due, "create notice: 1 (Failed 1)"},
			{time.Hour, told("notice"), ""},
			{time.Hour, create("b", count(2)), "admit"},
			{time.Hour, create("c"), "merge into b 2"},
			{time.Hour + 10*time.Second, due, "b 2 (0 merged)"},
		}},
		{says: "a merge that finds no token to pay with is told", terms: charged(1), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "drop by spam filter until 5m0s"},
			{0, create("b", count(2)), "drop by spam filter until 5m0s"},
			{10 * time.Second, due, "create notice: 2 (Failed 2)"},
		}},
		{says: "at most 16 reasons are told apart", terms: none, steps: append(manyReasons(20, dropped),
			step{us, create("x", reason("r00"), message("2")), dropped},
			step{10 * time.Second, due, "create notice: 21 (r00 2, " + eachOnce(1, 14) + ",  5)"},
		)},
		{says: "a notice that is gone is created anew", terms: none, steps: []step{
			{0, create("a"), dropped},
			{10 * time.Second, due, "create notice: 1 (Failed 1)"},
			{10 * time.Second, told("notice"), ""},
			{11 * time.Second, create("b"), dropped},
			{20 * time.Second, due, "update notice: 2 (Failed 2)"},
			{20 * time.Second, lost("notice"), ""},
			{30*time.Second - us, due, ""},
			{30 * time.Second, due, "create notice: 2 (Failed 2)"},
		}},
		{says: "a notice that cannot be created is given up", terms: none, steps: []step{
			{0, create("a"), dropped},
			{10 * time.Second, due, "create notice: 1 (Failed 1)"},
			{10 * time.Second, lost("notice"), ""},
			{time.Hour, drain, ""},
		}},
		{says: "a notice that is refused is given up until there is more to tell", terms: none, steps: []step{
			{0, create("a"), dropped},
			{10 * time.Second, due, "create notice: 1 (Failed 1)"},
			{10 * time.Second, refused("notice"), ""},
			{time.Minute, drain, ""},
			{time.Minute, create("b"), dropped},
			{70 * time.Second, due, "create notice: 2 (Failed 2)"},
		}},
	}
}

// eachOnce tells the reasons r01, r02 ... of one drop each.
func eachOnce(first, last int) string {
	var said []string
	for i := first; i <= last; i++ {
		said = append(said, fmt.Sprintf("r%02d 1", i))
	}
	return strings.Join(said, ", ")
}
