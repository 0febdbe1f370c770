package storetest

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/eventquota/eventquota/store"
)

// among chooses one of several.
func among[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// act is what a move does.
type act int

const (
	createAct act = iota
	updateAct
	againAct // the last UPDATE once more
	claimAct
	completeAct
)

// move is one step of a comparison, all chosen beforehand but what follows from the answers.
type move struct {
	act         act
	wait        time.Duration
	facts       facts
	count       int64
	counting    bool          // count goes on from the highest one that was sent
	late, since time.Duration // of the newest and the first occurrence, before now
	update      store.Update
	behind      int64 // how much less than the last count is stored
	limits      int
	ahead       time.Duration
	pick        int // which claim is completed
	outcome     store.Outcome
}

// forever is longer than any duration counts.
const forever = time.Duration(math.MaxInt64)

// chooseLimits are three settings of one run. Buckets of one name differ in their limits, and some in
// their keys.
func chooseLimits(rng *rand.Rand) []store.Limits {
	all := make([]store.Limits, 3)
	for i := range all {
		l := store.Limits{
			Merge:            rng.IntN(10) > 0,
			MaxEvents:        among(rng, 3, 2, 1, 100, 4),
			Window:           among(rng, 10*time.Minute, time.Minute, 10*time.Second, time.Hour, 1, 1500, forever),
			RepeatWindow:     among(rng, time.Hour, 10*time.Minute, time.Minute, 10*time.Second, 0, 1500, forever),
			WriteInterval:    among(rng, 10*time.Second, 10*time.Second, 7*time.Second, time.Minute, 0, 1, 2500, forever),
			MaxWriteInterval: among(rng, 5*time.Minute, time.Minute, 20*time.Second, 0, forever),
			KeepMessages:     among(rng, 2, 1, 0, 4),
			ReservePerReason: among(rng, 0, 1, 0, 2),
			ChargeMerged:     rng.IntN(4) == 0,
		}
		if rng.IntN(3) > 0 {
			l.Spam = chooseBucket(rng, "spam filter")
			l.Spam.About = store.Object{}
		} else {
			l.Quotas = append(l.Quotas, chooseBucket(rng, "shared filter"))
			l.Quotas[0].SpamFilter = true
		}
		for _, name := range among(rng, nil, []string{"one"}, []string{"one", "two"}, []string{"two", "one"}) {
			l.Quotas = append(l.Quotas, chooseBucket(rng, name))
		}
		all[i] = l
	}
	return all
}

func chooseBucket(rng *rand.Rand, name string) store.Bucket {
	b := bucket(name, among(rng, 2, 5, 1, 25, 3, 0, math.MaxInt), among(rng, 10*time.Second, time.Minute, time.Hour, 5*time.Minute, 0, 1, 2500, forever))
	if rng.IntN(4) == 0 {
		b.Key = store.KeyOf("another", name)
	}
	return b
}

func chooseMove(rng *rand.Rand, all []store.Limits) move {
	m := move{
		act: among(rng, createAct, createAct, createAct, createAct, createAct, createAct, updateAct, updateAct, updateAct, againAct,
			claimAct, claimAct, completeAct, completeAct, completeAct),
		limits: among(rng, 0, 0, 0, 1, 2),
		facts: about(among(rng, "a", "b", "c", "d", "e", "f"), []detail{
			pod(among(rng, "pod", "pod", "pod", "job")), reason(among(rng, "Failed", "Failed", "Killing")),
			message(among(rng, "1", "1", "2", "3", "4")), by(among(rng, "one", "one", "one", "two")),
		}),
		count: among(rng, int64(1), 1, 1, 0, 2, 5), counting: rng.IntN(5) > 0,
		late:  among(rng, 0, 0, time.Millisecond, -time.Minute, 1, 100*365*24*time.Hour, -250*365*24*time.Hour),
		since: among(rng, 0, 0, time.Minute, 2*time.Hour, us),
		update: store.Update{Recorder: rng.IntN(4) > 0, Reverts: rng.IntN(8) == 0, Stored: store.Stored{
			Merged: among(rng, int64(0), 0, 0, 1, 3, -2), Overwritten: rng.IntN(3) == 0,
		}},
		behind: among(rng, int64(0), 0, 1, 1, 3, -4),
		ahead:  among(rng, 0, 0, 0, 1, 5*time.Second, 35*time.Second, forever),
		pick:   rng.IntN(4),
		outcome: store.Outcome{
			Result: among(rng, store.Written, store.Written, store.Written, store.Written, store.NotFound, store.NotFound,
				store.NameTaken, store.Rejected, store.Failed, store.GivenUp),
			UID: among(rng, "u", "v"), ResourceVersion: among(rng, "1", "2"),
		},
	}
	if rng.IntN(8) == 0 {
		m.pick = rng.IntN(200)
	}
	if m.outcome.Result == store.Written && rng.IntN(2) == 0 {
		m.outcome.Stored = store.Stored{Count: 1 + rng.Int64N(9), Merged: rng.Int64N(4) - 1, Overwritten: rng.IntN(4) == 0}
	}
	m.facts.series, m.facts.combined, m.facts.warning = rng.IntN(8) == 0, rng.IntN(8) == 0, rng.IntN(4) == 0
	m.wait = chooseWait(rng, &all[m.limits])
	return m
}

// chooseWait is how long it is since the last move: nothing, a moment, or as long as something lasts,
// give or take a moment.
func chooseWait(rng *rand.Rand, l *store.Limits) time.Duration {
	whole := among(rng, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, l.WriteInterval, l.WriteInterval, l.MaxWriteInterval, 30*time.Second, 2*time.Second,
		l.Window, l.RepeatWindow, l.Spam.Every, time.Hour, 10*time.Hour)
	if whole > 100*time.Hour {
		whole = 0
	}
	whole += time.Duration(among(rng, 0, 0, 1, -1, 500)) * us
	return max(0, whole+time.Duration(rng.Int64N(int64(among(rng, us, us, 5*us, time.Millisecond, time.Second, time.Minute)))))
}
