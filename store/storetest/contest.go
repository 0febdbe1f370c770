package storetest

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// mostTies bounds the work on ties in a run.
const mostTies = 2

// contest takes two stores through the same moves until they differ.
type contest struct {
	t         *testing.T
	reference func(*testing.T) Subject // makes another a
	a, b      *side
	terms     []store.Terms
	now       time.Time
	told      map[string]int64 // by group and name, the highest count that was sent
	pending   []sent           // mutated and not validated
	last      *sent            // the last UPDATE
	claims    []claim
	calls     []call // all that a was asked, to ask it again
	ties      int    // how often it had to be found out whether debts tie
	played    int
	lines     []string
	found     string
}

// sent is a write that may be sent again.
type sent struct {
	write store.Write
	terms store.Terms
}

// claim is one debt as each store handed it out. Nth counts a's.
type claim struct {
	a, b store.Debt
	nth  int
}

func (c *contest) String() string {
	return strings.Join(append(c.lines, c.found), "\n")
}

func (c *contest) play(moves []move) {
	c.told = map[string]int64{}
	for i, m := range moves {
		c.now = c.now.Add(m.wait)
		c.make(m)
		if c.played = i + 1; c.found != "" {
			return
		}
	}
	c.collect(forever, math.MaxInt)
}

func (c *contest) make(m move) {
	switch m.act {
	case createAct, mutateAct:
		c.create(m)
	case arriveAct:
		if len(c.pending) > 0 {
			s := c.pending[0]
			c.pending = c.pending[1:]
			c.take(s)
		}
	case validateAct, updateAct:
		c.take(c.prepare(m))
	case againAct:
		if c.last != nil {
			c.take(*c.last)
		}
	case dueAct:
		n := 1 + m.some%4
		if m.some%3 == 0 || c.ties >= mostTies || c.unordered() {
			n = math.MaxInt
		}
		c.collect(m.ahead, n)
	case settleAct:
		c.settle(m)
	}
}

// unordered tells whether a notice that comes of giving up may fall due at
// once: then a's debts have no order that can be found out afterwards.
func (c *contest) unordered() bool {
	for _, t := range c.terms {
		if t.FlushInterval <= 0 {
			return true
		}
	}
	return false
}

// prepare is the write of a move, as far as it depends on those before.
func (c *contest) prepare(m move) sent {
	key := m.group + " " + m.name
	f := facts{
		name: m.name, group: m.group, reason: m.reason, message: m.message,
		count: m.count(c.told[key]), series: m.series, combined: m.combined, at: c.now.Add(-m.at), unnamed: m.some%8 == 0,
	}
	if m.act == updateAct {
		u := m.update
		u.OldCount = max(1, c.told[key]-m.old)
		f.update = &u
	}
	c.told[key] = max(c.told[key], f.count)
	s := sent{f.write(c.now), c.terms[m.terms]}
	if m.spam != "" {
		s.terms.Spam.Key = store.KeyOf(m.spam)
	}
	return s
}

func (c *contest) create(m move) {
	s := c.prepare(m)
	d := c.merge(s)
	switch d.Verdict {
	case store.Aggregate:
		s.write.Combined = true
	case store.Admit:
	case store.Merge, store.Drop, store.Deny:
		return
	}
	if m.act == mutateAct {
		c.pending = append(c.pending, s)
		return
	}
	if c.found == "" {
		c.take(s)
	}
}

// say keeps what both stores said, or notes that they differ.
func (c *contest) say(what, a, b string) {
	line := fmt.Sprintf("%v %s", c.now.Sub(epoch()), what)
	if a == b {
		c.lines = append(c.lines, line+": "+a)
		return
	}
	c.found = fmt.Sprintf("%s:\n\ta: %s\n\tb: %s", line, a, b)
}
