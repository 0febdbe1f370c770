package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/eventquota/eventquota/store"
)

// notices are of a spam filter without tokens, unless they say otherwise.
func notices() []story {
	const dropped, none = "drop by spam filter for ever", "drop by none for ever"
	empty := tokens(0, 0)
	return []story{
		{says: "one bucket has one notice, a write interval after the first drop", limits: empty, steps: []step{
			{0, create("a", reason("BackOff"), message("1")), dropped},
			{time.Second, create("b", reason("Killing"), message("2")), dropped},
			{2 * time.Second, create("c", reason("BackOff"), message("3")), dropped},
			{10*time.Second - us, due, ""},
			{10 * time.Second, due, "spam filter notice: 3 (BackOff 2, Killing 1)"},
		}},
		{says: "a notice is brought up to date with absolute counts", limits: empty, steps: []step{
			{0, create("a"), dropped},
			{10 * time.Second, due, "spam filter notice: 1 (Failed 1)"},
			{11 * time.Second, create("b"), dropped},
			{12 * time.Second, written("spam filter notice"), ""},
			{22*time.Second - us, due, ""},
			{22 * time.Second, due, "spam filter notice: 2 (Failed 2)"},
			{22 * time.Second, asking, `spam filter notice uid "spam filter notice-uid" version "1" written 1`},
			{22 * time.Second, written("spam filter notice"), ""},
			{time.Hour, drain, ""},
		}},
		{says: "each window has a notice of its own", limits: empty, steps: []step{
			{0, create("a"), dropped},
			{10*time.Minute - us, create("b"), dropped},
			{10*time.Minute - us, due, "spam filter notice: 2 (Failed 2)"},
			{10*time.Minute - us, written("spam filter notice"), ""},
			{10 * time.Minute, create("c"), dropped},
			{11 * time.Minute, due, "spam filter notice 2: 1 (Failed 1)"},
		}},
		{says: "each spam filter, source, object and user has a notice", limits: empty, steps: []step{
			{0, each(create("a"), create("b", pod("other")), create("c", by("mallory"), pod("third"))), dropped},
			{0, create("d", under(normal)), "drop by normal for ever"},
			{0, drain, "normal notice: 1 (Failed 1); spam filter notice of other: 1 (Failed 1); " +
				"spam filter notice of third: 1 (Failed 1); spam filter notice: 1 (Failed 1)"},
		}},
		{says: "a quota has one notice, whatever the number of objects, sources and users", steps: []step{
			{0, thousand(func(n string) action { return create(n, pod(n), by(n), bound("none")) }), none},
			{0, pending, "1"},
			{10 * time.Second, due, "none notice: 1000 (Failed 1000)"},
		}},
		{says: "a notice that is not found is created anew", limits: empty, steps: []step{
			{0, create("a"), dropped},
			{10 * time.Second, due, "spam filter notice: 1 (Failed 1)"},
			{10 * time.Second, written("spam filter notice"), ""},
			{11 * time.Second, create("b"), dropped},
			{20 * time.Second, due, "spam filter notice: 2 (Failed 2)"},
			{20 * time.Second, missing("spam filter notice"), ""},
			{20 * time.Second, asking, `spam filter notice uid "" version "" written 0`},
			{20 * time.Second, written("spam filter notice"), ""},
			{time.Hour, drain, ""},
		}},
		{says: "a notice whose name is taken gets another", limits: empty, steps: []step{
			{0, create("a"), dropped},
			{10 * time.Second, due, "spam filter notice: 1 (Failed 1)"},
			{10 * time.Second, became(store.NameTaken, "spam filter notice"), ""},
			{10 * time.Second, drain, "spam filter notice 2: 1 (Failed 1)"},
			{20 * time.Second, written("spam filter notice 2"), ""},
			{time.Hour, drain, ""},
		}},
	}
}

func noticeTexts() []story {
	const dropped, none = "drop by spam filter for ever", "drop by none for ever"
	empty := tokens(0, 0)
	return []story{
		{says: "it says where, since when, by which source and about what", limits: empty, steps: []step{
			{time.Second, create("a"), dropped},
			{3 * time.Second, create("b", seen(time.Hour), warning), dropped},
			{10 * time.Second, saying, `default/spam filter notice last 3s, first 1s, policy "", warnings true, sources (kubelet 2), ` +
				`objects [default/Pod/pod], about default/Pod/pod`},
		}},
		{says: "that of a quota says whose it is, and has all sources and the latest objects", steps: []step{
			{time.Second, create("a", pod("1"), bound("none")), none},
			{2 * time.Second, create("b", pod("2"), from("scheduler"), bound("none")), none},
			{3 * time.Second, create("c", pod("1"), bound("none")), none},
			{4 * time.Second, saying, `default/none notice last 3s, first 1s, policy "quota none", warnings false, sources (kubelet 2, scheduler 1), ` +
				`objects [default/Pod/1 default/Pod/2], about default/EventQuota/none`},
		}},
		{says: "at most 16 reasons are told apart", limits: empty, steps: append(manyReasons(20, dropped),
			step{us, create("x", reason("r00"), message("2")), dropped},
			step{10 * time.Second, due, "spam filter notice: 21 (r00 2, " + eachOnce(1, 14) + ",  5)"},
		)},
		{says: "and at most ten objects, the latest", steps: []step{
			{0, thousand(func(n string) action { return create(n, pod(n), bound("none")) }), none},
			{0, saying, `default/none notice last 0s, first 0s, policy "quota none", warnings false, sources (kubelet 1000), ` +
				`objects [` + latestPods(999, 990) + `], about default/EventQuota/none`},
		}},
	}
}

// eachOnce are the reasons r01, r02 ... of one drop each.
func eachOnce(first, last int) string {
	var said []string
	for i := first; i <= last; i++ {
		said = append(said, fmt.Sprintf("r%02d 1", i))
	}
	return strings.Join(said, ", ")
}

func latestPods(first, last int) string {
	var said []string
	for i := first; i >= last; i-- {
		said = append(said, fmt.Sprintf("default/Pod/%v", time.Duration(i)))
	}
	return strings.Join(said, " ")
}
