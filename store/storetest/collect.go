package storetest

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/eventquota/eventquota/store"
)

// collect claims debts from both stores and pairs them.
func (c *contest) collect(ahead time.Duration, n int) {
	a, b := c.ask(ahead, n)
	if c.found != "" {
		return
	}
	if n < math.MaxInt && !slices.Equal(a.said, b.said) {
		// Ties may have been broken otherwise. Once both have handed out all
		// there is, that makes no difference any more.
		c.ties++
		before := c.calls[:len(c.calls)-1]
		restA, restB := c.ask(ahead, math.MaxInt)
		allA, allB := a.and(restA), b.and(restB)
		if slices.Equal(allA.said, allB.said) {
			c.found = c.untied(before, ahead, a, b, allA)
		}
		a, b = allA, allB
	}
	if c.found != "" {
		return
	}
	c.say(fmt.Sprintf("due within %v, at most %d", ahead, n), a.String(), b.String())
	for i := range a.debts {
		if c.found == "" {
			c.claims = append(c.claims, claim{a.debts[i], b.debts[i], a.nth[i]})
		}
	}
}

// ask claims debts from both stores.
func (c *contest) ask(ahead time.Duration, n int) (a, b answer) {
	now := c.now
	debtsA, errA := c.a.Due(c.t.Context(), now, ahead, n)
	debtsB, errB := c.b.Due(c.t.Context(), now, ahead, n)
	if failed(errA) != "ok" || failed(errB) != "ok" {
		c.say("due", failed(errA), failed(errB))
	}
	if len(debtsA) > n || len(debtsB) > n {
		c.found = fmt.Sprintf("due: %d and %d debts, at most %d were asked for", len(debtsA), len(debtsB), n)
	}
	a, b = c.a.answer(debtsA), c.b.answer(debtsB)
	c.calls = append(c.calls, func(x Subject, debts []store.Debt) []store.Debt {
		more, _ := x.Due(c.t.Context(), now, ahead, n) // answered before
		return append(debts, more...)
	})
	return a, b
}

// untied says which of the debts that only one of the two handed out is less
// overdue than another one, if any. all are those that a knows of.
func (c *contest) untied(before []call, ahead time.Duration, a, b, all answer) string {
	if len(a.said) != len(b.said) {
		return fmt.Sprintf("%v due: %d debts and %d debts of the %d there are", c.now.Sub(epoch()), len(a.said), len(b.said), len(all.said))
	}
	first, where := int64(-1), ""
	for _, said := range append(a.without(b), b.without(a)...) {
		due := c.dueAt(before, ahead, all.debts[slices.Index(all.said, said)].Ref)
		if where != "" && due != first {
			return fmt.Sprintf("%v the most overdue of all do not come first:\n\ta: %s\n\tb: %s\ndue at %dus: %s\ndue at %dus: %s",
				c.now.Sub(epoch()), a, b, first, where, due, said)
		}
		first, where = due, said
	}
	return ""
}

// dueAt is when a says that a debt falls due, in microseconds since the
// clock's start, found by asking new stores in the place of a. It is 0 for
// what was due before that.
func (c *contest) dueAt(before []call, ahead time.Duration, ref store.Ref) int64 {
	start := epoch().UnixMicro()
	end := c.now.Add(min(ahead, 1<<52*us)).UnixMicro()
	return int64(sort.Search(int(end-start), func(i int) bool {
		x := c.reference(c.t)
		var debts []store.Debt
		for _, call := range before {
			debts = call(x, debts)
		}
		at := time.UnixMicro(start + int64(i))
		due, _ := x.Due(c.t.Context(), minTime(at, c.now), max(0, at.Sub(c.now)), math.MaxInt)
		return slices.ContainsFunc(due, func(d store.Debt) bool { return d.Ref == ref })
	}))
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
