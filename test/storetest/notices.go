package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/eventquota/eventquota/store"
)

// number returns a name of three digits.
func number(i int) string { return fmt.Sprintf("%03d", i) }

// notices has stories about notices, most of them of a spam filter without tokens.
func notices() []story {
	const dropped, none = "drop by spam filter for ever", "drop by none for ever"
	empty := tokens(0, 0)
	return []story{
		{name: "a bucket has one notice, a write interval after the first drop, and updates it", limits: empty, steps: []step{
			{0, create("a", reason("BackOff"), message("1")), dropped},
			{time.Second, create("b", reason("Killing"), message("2")), dropped},
			{2 * time.Second, create("c", reason("BackOff"), message("3")), dropped},
			{10 * time.Second, onTime(due), "spam filter notice: 3 (BackOff 2, Killing 1)"},
			{11 * time.Second, create("d", reason("BackOff"), message("4")), dropped},
			{12 * time.Second, written("spam filter notice"), ""},
			{22 * time.Second, onTime(due), "spam filter notice: 4 (BackOff 3, Killing 1)"},
			{22 * time.Second, wantConditions, `spam filter notice uid "spam filter notice-uid" version "1" written 3`},
			{22 * time.Second, written("spam filter notice"), ""},
			{time.Hour, drain, ""},
		}},
		{name: "each window has its own notice", limits: empty, steps: []step{
			{0, create("a"), dropped},
			{10*time.Minute - us, create("b"), dropped},
			{10*time.Minute - us, settle, "spam filter notice: 2 (Failed 2)"},
			{10 * time.Minute, create("c"), dropped},
			{11 * time.Minute, due, "spam filter notice 2: 1 (Failed 1)"},
		}},
		{name: "each spam filter, source, object and user has a notice", limits: empty, steps: []step{
			{0, each(create("a"), create("b", pod("other")), create("c", by("mallory"), pod("third"))), dropped},
			{0, create("d", under(normal)), "drop by normal for ever"},
			{0, drain, "normal notice: 1 (Failed 1); spam filter notice of other: 1 (Failed 1); " +
				"spam filter notice of third: 1 (Failed 1); spam filter notice: 1 (Failed 1)"},
		}},
		{name: "a quota has one notice for any number of objects and users", steps: []step{
			{0, many(1000, func(i int) action { return create(number(i), pod(number(i)), by(number(i)), withQuota("none")) }), none},
			{0, pending, "1"},
			{10 * time.Second, due, "none notice: 1000 (Failed 1000)"},
			{10 * time.Second, wantContent, `default/none notice last 0s, first 0s, policy "quota none", warnings false, sources (kubelet 1000), ` +
				`objects [` + latest(999, 990) + `], about default/EventQuota/none`},
		}},
		{name: "a notice that is not found is created again", limits: empty, steps: []step{
			{0, create("a"), dropped},
			{10 * time.Second, settle, "spam filter notice: 1 (Failed 1)"},
			{11 * time.Second, create("b"), dropped},
			{20 * time.Second, due, "spam filter notice: 2 (Failed 2)"},
			{20 * time.Second, missing("spam filter notice"), ""},
			{20 * time.Second, wantConditions, `spam filter notice uid "" version "" written 0`},
			{20 * time.Second, written("spam filter notice"), ""},
			{time.Hour, drain, ""},
		}},
		{name: "a notice whose name is taken gets another", limits: empty, steps: []step{
			{0, create("a"), dropped},
			{10 * time.Second, due, "spam filter notice: 1 (Failed 1)"},
			{10 * time.Second, outcomeOf(store.NameTaken, "spam filter notice"), ""},
			{10 * time.Second, drain, "spam filter notice 2: 1 (Failed 1)"},
			{20 * time.Second, written("spam filter notice 2"), ""},
			{time.Hour, drain, ""},
		}},
		{name: "a notice has the namespace, times, sources and objects of the drops", limits: empty, steps: []step{
			{time.Second, create("a"), dropped},
			{3 * time.Second, create("b", seen(time.Hour), warning), dropped},
			{10 * time.Second, wantContent, `default/spam filter notice last 3s, first 1s, policy "", warnings true, sources (kubelet 2), ` +
				`objects [default/Pod/pod], about default/Pod/pod`},
		}},
		{name: "the notice of a quota names it, all sources and the latest objects", steps: []step{
			{time.Second, create("a", pod("1"), withQuota("none")), none},
			{2 * time.Second, create("b", pod("2"), from("scheduler"), withQuota("none")), none},
			{3 * time.Second, create("c", pod("1"), withQuota("none")), none},
			{4 * time.Second, wantContent, `default/none notice last 3s, first 1s, policy "quota none", warnings false, sources (kubelet 2, scheduler 1), ` +
				`objects [default/Pod/1 default/Pod/2], about default/EventQuota/none`},
		}},
		{name: "at most 15 reasons are counted by name, and a new one replaces one with a single drop", limits: empty, steps: []step{
			{0, manyReasons(20), dropped},
			{us, create("x", reason("r00"), message("2")), dropped},
			{10 * time.Second, due, "spam filter notice: 21 (r00 2, r01 1, r02 1, r03 1, r04 1, r05 1, r06 1, r07 1, r08 1, r09 1, " +
				"r19 1, r18 1, r17 1, r16 1, r15 1,  5)"},
		}},
	}
}

// latest returns objects as a notice lists them.
func latest(first, last int) string {
	var objects []string
	for i := first; i >= last; i-- {
		objects = append(objects, "default/Pod/"+number(i))
	}
	return strings.Join(objects, " ")
}

// bounds has stories about the bounds of one group.
func bounds() []story {
	const long = 1 << 20
	plenty := func(l *store.Limits) {
		tokens(1<<20, 0)(l)
		l.SimilarThreshold = 1 << 20
	}
	// tally does n actions and returns how many Events were admitted and how many were merged.
	tally := func(n int, do func(i int) action) action {
		return func(sc *script) string {
			admitted, merged := 0, 0
			for i := range n {
				switch outcome := do(i)(sc); {
				case strings.HasPrefix(outcome, "merge"):
					merged++
				case strings.HasPrefix(outcome, "a"):
					admitted++
				}
			}
			return fmt.Sprintf("%d, %d merged", admitted, merged)
		}
	}
	events := func(prefix string, messages int) func(i int) action {
		return func(i int) action { return create(fmt.Sprint(prefix, i), message(fmt.Sprint(i%messages))) }
	}
	return []story{
		{name: "beyond the bound, a new Event replaces the least recently used one", limits: plenty, steps: []step{
			{0, create("first", message("first")), "admit"},
			{us, tally(200, events("e", 200)), "200, 0 merged"},
			{2 * us, create("last", message("last")), "admit"},
			{3 * us, create("x", message("last")), "merge into last 2"},
			{3 * us, create("y", message("199")), "merge into e199 2"},
			{3 * us, create("z", message("first")), "admit"},
		}},
		{name: "if all of them have pending writes and more come, no merged occurrence is lost", limits: plenty, steps: []step{
			{0, tally(128, events("e", 128)), "128, 0 merged"},
			{us, func(sc *script) string {
				var admitted, merged, unreported int64
				_, _ = fmt.Sscanf(tally(500, events("f", 200))(sc), "%d, %d merged", &admitted, &merged) // 0 if it fails
				drain(sc)
				for _, p := range sc.claimed {
					unreported += p.Unreported()
				}
				return fmt.Sprint(merged > 0, " ", unreported-merged)
			}, "true 0"},
		}},
		{name: "256 refused names are remembered, and one more replaces the oldest", limits: plenty, steps: []step{
			{0, create("a"), "admit"},
			{us, tally(257, func(i int) action { return create(fmt.Sprint("n", i), count(5), firstAt(0)) }), "0, 257 merged"},
			{2 * us, create("n2", count(6), firstAt(0)), "merge into a 1287"},
			{2 * us, create("n0", count(6), firstAt(0)), "merge into a 1293 (+6)"},
		}},
		{name: "texts are truncated before they are stored", limits: func(l *store.Limits) {
			tokens(2, 0)(l)
			l.SimilarThreshold = 1
		}, steps: []step{
			{0, create("a", message(strings.Repeat("m", long)), reason(strings.Repeat("r", long))), "aggregate"},
			{us, create("b", message(strings.Repeat("ü", long)), reason(strings.Repeat("r", long))), "merge into a 2"},
			{us, func(sc *script) string {
				drain(sc)
				return fmt.Sprint(len(sc.claimed["a"].Messages[0].Name), " ", len(sc.claimed["a"].Messages[1].Name))
			}, "1024 1024"},
			{time.Hour, create(strings.Repeat("n", long), reason(strings.Repeat("r", long)), pod(strings.Repeat("p", long)), withQuota("none"),
				in(strings.Repeat("s", long)), from(strings.Repeat("c", long))), "drop by none for ever"},
			{time.Hour, func(sc *script) string {
				drain(sc)
				n := sc.claimed["none notice"].Notice
				return fmt.Sprint(len(n.Reasons[0].Name), " ", len(n.Sources[0].Name), " ", len(n.Objects[0]))
			}, "128 253 253"},
		}},
		{name: "messages that do not fit are left out, and all occurrences are counted", limits: func(l *store.Limits) {
			plenty(l)
			l.SimilarThreshold, l.KeepMessages = 1, 1000
		}, steps: []step{
			{0, tally(100, func(i int) action {
				return create(fmt.Sprint("e", i), message(fmt.Sprint(i, strings.Repeat("m", 2000))))
			}), "1, 99 merged"},
			{0, func(sc *script) string {
				drain(sc)
				p, kept := sc.claimed["e0"], 0
				for _, m := range p.Messages {
					kept += len(m.Name)
				}
				return fmt.Sprint(p.Total, " ", kept > 0 && kept < 64<<10)
			}, "100 true"},
		}},
	}
}

// expiry has stories about groups that are forgotten after a quiet time.
func expiry() []story {
	lasting := func(window, repeat, refill time.Duration) func(*store.Limits) {
		return func(l *store.Limits) {
			l.SimilarThreshold, l.Window, l.IdenticalWindow = 100, window, repeat
			l.SpamFilter.Limit = store.Limit{Burst: 4, Every: refill / 4}
		}
	}
	// returning writes the pending count of a group, and creates its Event again after a time. If the group is still
	// known, the Event continues its total.
	returning := func(settledAt, after time.Duration, want string) []step {
		return append(merged(), []step{
			{settledAt, soon(time.Hour), "a 2 (1 merged)"},
			{settledAt, written("a"), ""},
			{after, create("a", count(2)), "admit"},
			{after, create("c"), want},
		}...)
	}
	const known, forgotten = "merge into a 4", "merge into a 3"
	return []story{
		{name: "a group is kept for the identical window", limits: lasting(time.Minute, time.Hour, time.Minute), steps: returning(us, time.Hour+us, known)},
		{name: "a group is forgotten after the longest window", limits: lasting(time.Hour, time.Minute, time.Hour), steps: returning(us, time.Hour+2*us, forgotten)},
		{
			name:   "an expired group is forgotten once its pending write is made",
			limits: lasting(time.Minute, time.Minute, time.Minute), steps: returning(time.Hour, time.Hour, forgotten),
		},
		{name: "a refused name is kept for the identical window", limits: lasting(time.Hour, time.Minute, time.Hour), after: merged, steps: []step{
			{time.Minute, create("z", count(3)), "merge into a 3"},
			{time.Minute, create("b", count(5)), "merge into a 7 (+4)"},
			{time.Minute, create("c", message("2")), "admit"},
			{2*time.Minute + time.Second, create("b", count(9), message("2")), "admit"},
			{2*time.Minute + time.Second, create("d", message("2")), "merge into b 10"},
		}},
	}
}

// clocks has stories about extreme times and durations.
func clocks() []story {
	tiny := func(l *store.Limits) {
		l.SimilarThreshold, l.IdenticalWindow, l.WriteInterval, l.MaxWriteInterval = 100, us+1, us+1, us+1
		l.SpamFilter.Limit = store.Limit{Burst: 1, Every: 1}
		l.Quotas = []store.Bucket{bucket("quota", 1, us+1)}
	}
	ages := func(l *store.Limits) {
		l.Window, l.IdenticalWindow, l.WriteInterval, l.MaxWriteInterval = 1<<63-1, 1<<63-1, 1<<63-1, 1<<63-1
		l.SpamFilter.Limit = store.Limit{Burst: 1<<63 - 1, Every: 1 << 52 * us}
	}
	return []story{
		{name: "durations are rounded up", limits: tiny, steps: []step{
			{0, create("a", message("1")), "admit"},
			{us, create("b", message("2")), "drop by quota until 2µs"},
			{2 * us, create("c", message("1")), "merge into a 2"},
			{4 * us, create("d", message("1")), "merge into a 3"},
			{4 * us, due, "a 3 (2 merged); quota notice: 1 (Failed 1)"},
		}},
		{name: "durations may have the maximal length", limits: ages, after: merged, steps: []step{
			{1 << 50 * us, create("c"), "merge into a 3"},
			{1 << 50 * us, create("d", message("2")), "drop by spam filter until " + (1 << 52 * us).String()},
			{1 << 50 * us, soon(3<<50*us - us), ""},
			{1 << 50 * us, soon(3 << 50 * us), "a 3 (2 merged)"},
		}},
		{name: "negative durations are zero", limits: func(l *store.Limits) {
			l.SimilarThreshold, l.Window, l.IdenticalWindow, l.WriteInterval, l.MaxWriteInterval = 100, -1, -time.Hour, -time.Hour, -1
			l.SpamFilter.Every = -1
		}, steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge into a 2"},
			{0, settle, "a 2 (1 merged)"},
			{us, create("c"), "admit"},
		}},
		{name: "a clock that was hours ahead delays nothing by hours", limits: func(l *store.Limits) { l.MaxWriteInterval = 5 * time.Minute }, steps: []step{
			{2 * time.Hour, create("a"), "admit"},
			{2 * time.Hour, create("b"), "merge into a 2"},
			{0, create("c"), "merge into a 3"},
			{time.Minute, settle, "a 3 (2 merged)"},
			{time.Minute, create("d"), "merge into a 4"},
			{10 * time.Minute, due, "a 4 (3 merged)"},
		}},
	}
}
