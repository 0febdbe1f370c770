package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/eventquota/eventquota/store"
)

// many does n things and says how many Events were let through and how many were merged.
func many(n int, do func(i int) action) action {
	return func(sc *script) string {
		let, merged := 0, 0
		for i := range n {
			switch said := do(i)(sc); {
			case strings.HasPrefix(said, "merge"):
				merged++
			case strings.HasPrefix(said, "a"):
				let++
			}
		}
		return fmt.Sprintf("%d, %d merged", let, merged)
	}
}

// bounds are those of one group.
func bounds() []story {
	const long = 1 << 20
	plenty := func(l *store.Limits) {
		tokens(1<<20, 0)(l)
		l.MaxEvents = 1 << 20
	}
	numbered := func(prefix string, n int) func(i int) action {
		return func(i int) action { return create(fmt.Sprint(prefix, i), message(fmt.Sprint(i%n))) }
	}
	lengthy := func(prefix string) func(i int) action {
		return func(i int) action {
			return create(fmt.Sprint(prefix, i), message(fmt.Sprint(i, strings.Repeat("m", 2000))))
		}
	}
	return []story{
		{says: "128 stored Events are known, and one more takes the place of the one used longest ago", limits: plenty, steps: []step{
			{0, create("first", message("first")), "admit"},
			{us, many(127, numbered("e", 127)), "127, 0 merged"},
			{2 * us, create("last", message("last")), "admit"},
			{3 * us, create("x", message("last")), "merge into last 2"},
			{3 * us, create("y", message("0")), "merge into e0 2"},
			{3 * us, create("z", message("first")), "admit"},
		}},
		{says: "where all of them are pending and more come, nothing that was merged is lost", limits: plenty, steps: []step{
			{0, many(128, numbered("e", 128)), "128, 0 merged"},
			{us, func(sc *script) string {
				var let, merged, unreported int64
				_, _ = fmt.Sscanf(many(500, numbered("f", 200))(sc), "%d, %d merged", &let, &merged) // 0 if it fails
				drain(sc)
				for _, p := range sc.claimed {
					unreported += p.Unreported()
				}
				return fmt.Sprint(merged > 0, " ", unreported-merged)
			}, "true 0"},
		}},
		{says: "256 refused names are known, and one more takes the place of the oldest", limits: plenty, steps: []step{
			{0, create("a"), "admit"},
			{us, many(257, func(i int) action { return create(fmt.Sprint("n", i), count(5), firstAt(0)) }), "0, 257 merged"},
			{2 * us, create("n2", count(6), firstAt(0)), "merge into a 1287"},
			{2 * us, create("n0", count(6), firstAt(0)), "merge into a 1293 (+6)"},
		}},
		{says: "texts are cut before they are kept", limits: func(l *store.Limits) {
			tokens(2, 0)(l)
			l.MaxEvents = 1
		}, steps: []step{
			{0, create("a", message(strings.Repeat("m", long)), reason(strings.Repeat("r", long))), "aggregate"},
			{us, create("b", message(strings.Repeat("ü", long)), reason(strings.Repeat("r", long))), "merge into a 2"},
			{us, func(sc *script) string {
				drain(sc)
				return fmt.Sprint(len(sc.claimed["a"].Messages[0].What), " ", len(sc.claimed["a"].Messages[1].What))
			}, "1024 1024"},
			{time.Hour, create(strings.Repeat("n", long), reason(strings.Repeat("r", long)), pod(strings.Repeat("p", long)), bound("none"),
				in(strings.Repeat("s", long)), from(strings.Repeat("c", long))), "drop by none for ever"},
			{time.Hour, func(sc *script) string {
				drain(sc)
				n := sc.claimed["none notice"].Notice
				return fmt.Sprint(len(n.Reasons[0].What), " ", len(n.Sources[0].What), " ", len(n.Objects[0]))
			}, "128 253 253"},
		}},
		{says: "what does not fit goes without its messages, and all is counted", limits: func(l *store.Limits) {
			plenty(l)
			l.MaxEvents, l.KeepMessages = 1, 1000
		}, steps: []step{
			{0, many(100, lengthy("e")), "1, 99 merged"},
			{0, func(sc *script) string {
				drain(sc)
				p, kept := sc.claimed["e0"], 0
				for _, m := range p.Messages {
					kept += len(m.What)
				}
				return fmt.Sprint(p.Total, " ", kept > 0 && kept < 32<<10)
			}, "100 true"},
		}},
	}
}
