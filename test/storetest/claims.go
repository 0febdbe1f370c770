package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/eventquota/eventquota/store"
)

func claims() []story {
	// pair creates a pending write about an object, which is due in ten seconds.
	pair := func(name, namespace string) action {
		return each(create(name+"1", pod(name), in(namespace)), create(name+"2", pod(name), in(namespace)))
	}
	pairs := func(namespace string, names ...string) action {
		return func(sc *script) string {
			for _, name := range names {
				if got, want := pair(name, namespace)(sc), "admit; merge into "+name+"1 2"; got != want {
					return got
				}
			}
			return ""
		}
	}
	return []story{
		{name: "a stored Event has no pending write", steps: []step{
			{0, create("a"), "admit"},
			{time.Hour, drain, ""},
			{time.Hour, pending, "0"},
		}},
		{name: "a claim looks ahead, in whole microseconds rounded up", after: merged, steps: []step{
			{10*time.Second - us, each(soon(0), soon(-time.Hour)), ""},
			{10*time.Second - us, each(soon(us), soon(1), soon(time.Hour), soon(1<<52*us), soon(math.MaxInt64)), "a 2 (1 merged)"},
			{10*time.Second - 2*us, soon(us), ""},
			{10*time.Second - 2*us, soon(us + 1), "a 2 (1 merged)"},
		}},
		{name: "a claim changes nothing, and skips claimed groups", steps: []step{
			{0, pairs("default", "a"), ""},
			{time.Second, pairs("default", "b"), ""},
			{time.Minute, each(dueExcept(1), dueExcept(1)), "a1 2 (1 merged)"},
			{time.Minute, dueExcept(1, "a"), "b1 2 (1 merged)"},
			{time.Minute, each(dueExcept(1, "a", "b"), dueExcept(0)), ""},
			{time.Minute, pending, "2"},
		}},
		{name: "namespaces take turns, even if one has many pending writes", steps: []step{
			{0, pairs("noisy", "a", "b", "c", "d"), ""},
			{time.Second, pairs("quiet", "e"), ""},
			{2 * time.Second, pairs("calm", "f"), ""},
			{time.Minute, func(sc *script) string {
				writes, err := sc.subject.Claim(sc.t.Context(), sc.now, 0, 4, noneClaimed)
				claims := map[string]int{}
				for _, p := range writes {
					claims[p.Namespace]++
				}
				if err != nil || claims["noisy"] != 2 || claims["quiet"] != 1 || claims["calm"] != 1 {
					return fmt.Sprintf("claims %v, error %v; want two of noisy, one of quiet and one of calm", claims, err)
				}
				return ""
			}, ""},
			{time.Minute, dueExcept(4, "a", "b", "c"), "d1 2 (1 merged); e1 2 (1 merged); f1 2 (1 merged)"},
		}},
		{name: "a claim continues after the namespace that was served last", steps: []step{
			{0, pairs("alpha", "a"), ""},
			{us, pairs("alpha", "b"), ""},
			{time.Second, pairs("omega", "c"), ""},
			{time.Minute, dueExcept(1), "a1 2 (1 merged)"},
			{time.Minute, dueExcept(1, "a"), "c1 2 (1 merged)"},
			{time.Minute, dueExcept(1, "a", "c"), "b1 2 (1 merged)"},
		}},
		{name: "the writes of one group count as one claim", steps: []step{
			{0, each(create("a", message("1")), create("b", message("1"))), "admit; merge into a 2"},
			{5 * time.Second, each(create("c", message("2")), create("d", message("2"))), "admit; merge into c 2"},
			{10 * time.Second, dueExcept(1), "a 2 (1 merged)"},
			{15 * time.Second, dueExcept(1), "a 2 (1 merged); c 2 (1 merged)"},
			{15 * time.Second, pending, "1"},
		}},
		{name: "a claim has the identity of the stored Event, and a new one after it is created again", steps: []step{
			{time.Second, create("a", createID(7)), "admit"},
			{2 * time.Second, create("b", createID(8)), "merge into a 2"},
			{2 * time.Second, wantConditions, `a uid "" version "" written 1 exact create ID 7`},
			{2 * time.Second, written("a"), ""},
			{2 * time.Second, create("c"), "merge into a 3"},
			{2 * time.Second, wantConditions, `a uid "a-uid" version "1" written 2 exact create ID 7`},
			{3 * time.Second, create("a", count(2), createID(9)), "admit"},
			{3 * time.Second, wantConditions, `a uid "" version "" written 2 exact create ID 9`},
			{3 * time.Second, drain, "a 4 (2 merged)"},
		}},
		{name: "a combined Event has the similar key", after: three, steps: []step{
			{us, create("d", message("4")), "merge into c 2"},
			{us, wantConditions, `c uid "" version "" written 1 similar`},
		}},
	}
}

func outcomes() []story {
	return []story{
		{name: "after a write, only what has merged meanwhile is pending", after: claimed, steps: []step{
			{10 * time.Second, create("c"), "merge into a 3"},
			{10 * time.Second, written("a"), ""},
			{20 * time.Second, onTime(settle), "a 3 (2 merged)"},
			{time.Hour, drain, ""},
			{time.Hour, pending, "0"},
		}},
		{name: "a write that is completed twice is made again once", after: writtenOnce, steps: []step{
			{10 * time.Second, written("a"), ""},
			{20 * time.Second, settle, "a 2 (1 merged)"},
			{time.Hour, drain, ""},
		}},
		{name: "a failed write is retried, with a longer wait each time", after: claimed, steps: []step{
			{10 * time.Second, outcomeOf(store.Failed, "a"), ""},
			{40 * time.Second, onTime(due), "a 2 (1 merged)"},
			{40 * time.Second, func(sc *script) string { return sc.claimed["a"].FailingSince.Sub(epoch()).String() }, "10s"},
			{40 * time.Second, outcomeOf(store.Failed, "a"), ""},
			{41 * time.Second, create("b2"), "merge into a 3"},
			{100 * time.Second, onTime(settle), "a 3 (2 merged)"},
			{101 * time.Second, create("c"), "merge into a 4"},
			{110 * time.Second, due, "a 4 (3 merged)"},
			{110 * time.Second, func(sc *script) string { return sc.claimed["a"].FailingSince.String() }, time.Time{}.String()},
		}},
		{name: "a rejected count goes to a notice", after: claimed, steps: []step{
			{10 * time.Second, outcomeOf(store.Rejected, "a"), ""},
			{20 * time.Second, settle, "notice: 1 (Failed 1)"},
			{21 * time.Second, create("c"), "merge into a 2"},
			{30 * time.Second, due, "a 2 (1 merged)"},
		}},
		{name: "a count that is given up is lost, and later ones are not", after: claimed, steps: []step{
			{10 * time.Second, outcomeOf(store.GivenUp, "a"), ""},
			{time.Hour, drain, ""},
			{time.Hour, create("c"), "merge into a 2"},
			{time.Hour, drain, "a 2 (1 merged)"},
			{time.Hour, create("d"), "merge into a 3"},
			{time.Hour, outcomeOf(store.GivenUp, "a"), ""},
			{time.Hour, drain, "a 2 (1 merged)"}, // the occurrence since the claim
		}},
		{name: "a count that a notice reports is not adopted from the stored Event again", after: writtenOnce, steps: []step{
			{11 * time.Second, update("a", count(5), stored(2), storedMerged(1)), "merge into a 6 (+4)"},
			{20 * time.Second, due, "a 6 (1 merged)"},
			{20 * time.Second, outcomeOf(store.Rejected, "a"), ""},
			{21 * time.Second, update("a", count(6), stored(2), storedMerged(1)), "merge into a 3"},
			{30 * time.Second, drain, "a 3 (-3 merged); notice: 4 (Failed 4)"},
		}},
		{name: "an outcome for a forgotten notice does not affect the next notice", limits: tokens(0, 0), steps: []step{
			{0, create("a"), "drop by spam filter for ever"},
			{10 * time.Second, settle, "spam filter notice: 1 (Failed 1)"},
			{2 * time.Hour, create("b"), "drop by spam filter for ever"},
			{2 * time.Hour, written("spam filter notice"), ""},
			{2 * time.Hour, drain, "spam filter notice 2: 1 (Failed 1)"},
		}},
		{name: "an outcome for an unknown write is ignored", steps: []step{{0, completeUnknown, ""}}},
	}
}

func completeUnknown(sc *script) string {
	for r := store.Written; r <= store.GivenUp; r++ {
		sc.claimed["a"] = store.PendingWrite{Ref: store.Ref{Group: store.KeyOf("never seen"), ID: 1}, Name: "a", Occurrences: store.Occurrences{Total: 1}}
		if failed := outcomeOf(r, "a")(sc); failed != "" {
			return failed
		}
	}
	return drain(sc)
}

// notFound has stories about counts whose Event the API server does not have.
func notFound() []story {
	const after = 10*time.Minute + 11*time.Second // orphaned
	return []story{
		{name: "the next Event continues the whole count, and takes a token", after: orphaned, steps: []step{
			{20 * time.Second, create("c"), "admit"},
			{21 * time.Second, create("d"), "merge into c 4"},
			{30 * time.Second, onTime(settle), "c 4 (3 merged)"},
			{time.Hour, drain, ""},
		}},
		{name: "if no Event follows within a window, a notice reports the unwritten count", after: orphaned, steps: []step{
			{12 * time.Second, missing("a"), ""}, // again, which changes nothing
			{after, onTime(due), "none: 1 unreported"},
			{after, missing(""), ""},
			{after + 10*time.Second, due, "notice: 1 (Failed 1)"},
			{after + 10*time.Second, create("c"), "admit"},
			{after + 10*time.Second, create("b", count(2)), "merge into c 2"},
			{after + 10*time.Second, create("a", count(2)), "merge into c 3"},
		}},
		{name: "an Event that follows while the notice is written gets the count", after: orphaned, steps: []step{
			{after, due, "none: 1 unreported"},
			{after, create("c"), "admit"},
			{after, missing(""), ""},
			{after, drain, "c 3 (2 merged)"},
		}},
		{name: "an outcome does not affect an Event that was created since the claim", after: claimed, steps: []step{
			{11 * time.Second, create("a", count(2)), "admit"},
			{12 * time.Second, missing("a"), ""},
			{12 * time.Second, outcomeOf(store.NameTaken, "a"), ""},
			{12 * time.Second, outcomeOf(store.Rejected, "a"), ""},
			{13 * time.Second, create("c"), "merge into a 4"},
			{13 * time.Second, drain, "a 4 (2 merged)"},
		}},
		{name: "an Event whose name is taken leaves no more state", after: claimed, steps: []step{
			{11 * time.Second, outcomeOf(store.NameTaken, "a"), ""},
			{12 * time.Second, create("a", message("2")), "admit"},
			{12 * time.Second, create("b", message("2")), "admit"},
			{12 * time.Second, drain, "none: 1 unreported"},
			{12 * time.Second, create("a", count(2)), "admit"},
			{13 * time.Second, create("c"), "admit"},
			{14 * time.Second, create("d"), "merge into c 4"},
		}},
		{name: "a late outcome for a replaced Event changes nothing", after: claimed, steps: []step{
			{10 * time.Second, copyClaim("a", "late"), ""},
			{11 * time.Second, missing("a"), ""},
			{12 * time.Second, create("c"), "admit"},
			{13 * time.Second, drain, "c 3 (2 merged)"},
			{13 * time.Second, written("c"), ""},
			{14 * time.Second, written("late"), ""},
			{time.Hour, drain, ""},
		}},
	}
}

// waits has stories about the write interval: ten seconds, which doubles up to eighty.
func waits() []story {
	const s = time.Second
	doubling := func(l *store.Limits) { l.MaxWriteInterval = 80 * s }
	return []story{
		{name: "each write doubles the interval up to the maximum, and it shrinks while nothing is written", limits: doubling, steps: []step{
			{0, create("a"), "admit"},
			{1 * s, create("b"), "merge into a 2"},
			{10 * s, onTime(settle), "a 2 (1 merged)"},
			{11 * s, create("c"), "merge into a 3"},
			{30 * s, onTime(settle), "a 3 (2 merged)"},
			{31 * s, create("d"), "merge into a 4"},
			{70 * s, onTime(settle), "a 4 (3 merged)"},
			{71 * s, create("e"), "merge into a 5"},
			{150 * s, onTime(settle), "a 5 (4 merged)"},
			{151 * s, create("f"), "merge into a 6"},
			{230 * s, onTime(settle), "a 6 (5 merged)"},
			{400 * s, create("g"), "merge into a 7"},
			{400 * s, settle, "a 7 (6 merged)"},
			{401 * s, create("h"), "merge into a 8"},
			{440 * s, onTime(due), "a 8 (7 merged)"},
		}},
	}
}
