package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/eventquota/eventquota/store"
)

// wideness is what a run has so much of that it meets a store's bounds. Most
// runs have little of everything, and get far with it.
type wideness int

const (
	names    wideness = iota + 8
	messages          // each twice, so that something is owed
	reasons
	allOwed // as messages, and nobody settles
	buckets
)

const forever = time.Duration(math.MaxInt64)

func chooseTerms(c *choices, width wideness) store.Terms {
	t := store.Terms{
		MaxEvents:        among(c, 3, 2, 1, 100, 4),
		Window:           among(c, 10*time.Minute, time.Minute, 10*time.Second, time.Hour, 1, 1500, forever),
		RepeatWindow:     among(c, time.Hour, 10*time.Minute, time.Minute, 10*time.Second, 0, 1500, forever),
		FlushInterval:    among(c, 10*time.Second, 10*time.Second, 7*time.Second, time.Minute, 10*time.Second, 0, 1, 2500, forever),
		KeepMessages:     among(c, 2, 1, 0, 4),
		Spam:             chooseBucket(c, "spam filter"),
		ReservePerReason: among(c, 0, 1, 0, 2),
		ChargeMerged:     c.below(4) == 0,
	}
	for _, name := range [][]string{nil, {"one"}, {"one", "two"}, {"two", "one"}, nil}[c.below(5)] {
		t.Quotas = append(t.Quotas, chooseBucket(c, name))
	}
	t.SharedSpam = c.below(3) == 0
	if width >= names {
		t.Window, t.RepeatWindow, t.FlushInterval, t.ChargeMerged = time.Hour, time.Hour, time.Minute, false
		t.MaxEvents, t.Quotas = 100, nil
		t.Spam.Limit = store.Limit{Burst: among(c, 1000, 1000, 0, 20), Every: time.Hour}
	}
	return t
}

// chooseBucket is a bucket of a name. The terms of a run differ in its limit,
// and some in its name.
func chooseBucket(c *choices, name string) store.Bucket {
	b := bucket(name, among(c, 2, 5, 1, 25, 3, 0, math.MaxInt), among(c, 10*time.Second, time.Minute, time.Hour, 5*time.Minute, 0, 1, 2500, forever))
	if c.below(4) == 0 {
		b.Key = store.KeyOf("another", name)
	}
	return b
}

func chooseMove(c *choices, place int, terms []store.Terms, width wideness) move {
	m := move{
		act: among(c, createAct, createAct, createAct, createAct, createAct, mutateAct, arriveAct, validateAct,
			updateAct, updateAct, updateAct, againAct, dueAct, dueAct, settleAct, settleAct, settleAct),
		place:   place,
		terms:   among(c, 0, 0, 0, 1, 2),
		group:   among(c, "pod", "pod", "pod", "job"),
		name:    among(c, "a", "b", "c", "d", "e", "f"),
		reason:  among(c, "Failed", "Failed", "Killing"),
		message: among(c, "1", "1", "2", "3", "4"),
	}
	m.wait = chooseWait(c, terms[m.terms])
	m.count = chooseCount(c)
	flags := c.below(256)
	m.series, m.combined = flags&7 == 0, flags>>3&7 == 0
	m.at = among(c, 0, 0, time.Millisecond, -time.Minute, 1, 100*365*24*time.Hour, -250*365*24*time.Hour)
	m.update = store.Update{Recorder: flags>>6 != 0, OldMerged: among(c, int64(0), 0, 0, 1, 3, -2), OldOverwritten: c.below(3) == 0}
	m.old = among(c, int64(0), 0, 1, 1, 3, -4)
	m.some = c.below(256)
	m.ahead = among(c, 0, 0, 0, 0, 0, 1, 5*time.Second, 35*time.Second, forever)
	m.outcome = among(c, store.Told, store.Told, store.Told, store.Gone, store.Gone, store.Refused)
	return m.widen(width)
}

// widen makes m one of a run that has very much of something.
func (m move) widen(width wideness) move {
	if width < names {
		return m
	}
	m.group, m.terms, m.wait = "pod", 0, min(m.wait, 3*time.Millisecond)
	m.name = fmt.Sprint(m.name, m.place)
	switch width {
	case messages, allOwed:
		m.message = fmt.Sprint(m.place / 2)
		m.reason = fmt.Sprint("R", m.place/2%4)
	case reasons:
		m.reason = fmt.Sprint("R", m.place%100)
		m.terms = m.place % 3
	case buckets:
		m.spam = fmt.Sprint("spam filter ", m.place%20)
	case names:
	}
	if width == allOwed && (m.act != updateAct || m.place < 300) {
		m.act = createAct
	}
	return m
}

// chooseWait is how long it is since the last move: nothing, a moment, or as
// long as something lasts, give or take a moment.
func chooseWait(c *choices, t store.Terms) time.Duration {
	fine := int64(c.below(256))
	most := among(c, 0, 0, 0, us, 5*us, time.Millisecond, time.Second, 3*time.Second, time.Minute)
	whole := among(c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, t.FlushInterval, t.FlushInterval, 30*time.Second, 2*time.Second,
		t.Window, t.RepeatWindow, t.Spam.Every, time.Hour, 10*time.Hour)
	if whole > 100*time.Hour {
		whole = 0
	}
	whole += time.Duration(among(c, 0, 0, 1, -1, 500)) * us
	return max(0, whole+time.Duration(int64(most)*fine/256))
}

func chooseCount(c *choices) func(int64) int64 {
	some := int64(1 + c.below(6))
	return among(c,
		func(told int64) int64 { return told + 1 },
		func(told int64) int64 { return told + 1 },
		func(told int64) int64 { return max(1, told) },
		func(told int64) int64 { return told + some },
		func(int64) int64 { return some },
	)
}
