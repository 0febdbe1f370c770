package rules

import "time"

// Skew is how far ahead of now a time of the state may be. Clocks that differ by more have jumped.
const Skew = 10 * time.Second

const skew = int64(Skew / time.Microsecond)

// Correct puts right what a clock has left in g that was ahead and is not any more: a moment in the past is now at the
// latest, and what is due waits for no longer from now than it did from the last step. So a clock that was a day ahead
// delays nothing by a day, neither a write nor the end of a window. Times up to Skew ahead of now are as they are, as
// clocks of replicas differ. Each step begins with it; a store that sees its clock go back does it to what is pending.
// Levels of quotas are corrected where they are read.
func (g *Group) Correct(now time.Time) {
	c := correction{now: now.UnixMicro()}
	isRight := g.corrected != 0 && g.corrected <= c.now
	g.corrected = c.now
	if isRight {
		return
	}
	for i := range g.Records {
		g.Records[i].correct(&c)
	}
	for i := range g.Notices {
		g.Notices[i].correct(&c)
	}
	for i := range g.Similar {
		c.moment(&g.Similar[i].Last)
	}
	for i := range g.Names {
		at := int64(g.Names[i].At) * second
		if c.moment(&at) {
			g.Names[i].At = seconds(at)
		}
	}
	for i := range g.Buckets {
		c.moment(&g.Buckets[i].At)
	}
	if c.ahead == 0 {
		return
	}
	c.end(&g.Until)
	for i := range g.Buckets {
		for n := range g.Buckets[i].Reserves {
			c.end(&g.Buckets[i].Reserves[n].Until)
		}
	}
}

// correction corrects times, and keeps by how much the latest of them was ahead.
type correction struct{ now, ahead int64 }

// moment corrects a time in the past, and reports whether that changed it.
func (c *correction) moment(at *int64) bool {
	if *at-c.now <= skew {
		return false
	}
	c.ahead = max(c.ahead, *at-c.now)
	*at = c.now
	return true
}

// end corrects when a window ends that has begun by then.
func (c *correction) end(until *int64) {
	if *until-c.now > skew {
		*until = max(c.now, *until-c.ahead)
	}
}

// due corrects when something is due that waits since the latest of some moments, and for so long at most.
func (c *correction) due(due *int64, longest int64, since ...*int64) {
	last := int64(0)
	for _, at := range since {
		last = max(last, *at)
		c.moment(at)
	}
	if *due == 0 {
		return
	}
	if last-c.now <= skew {
		last = *due - longest // by a clock that was right, or else it was not due for longer
	}
	if wait := min(max(*due-last, 0), longest); *due-c.now > wait+skew {
		*due = c.now + wait
	}
}

func (r *Record) correct(c *correction) {
	c.due(&r.Due, max(r.Interval, r.Max, retryMax, r.Window), &r.Seen, &r.WrittenAt, &r.Failing)
	if r.Last-c.now > micros(ahead) { // by the writer's clock, which may be ahead by this
		r.Last = c.now
	}
}

func (n *Notice) correct(c *correction) {
	c.due(&n.Due, max(n.Interval, n.Max, retryMax), &n.Last, &n.WrittenAt, &n.Failing, &n.Opened)
	c.moment(&n.First)
}

// over reports whether a reserve has ended, whose window may have begun by a clock that was ahead.
func (r *Reserve) over(now, window int64) bool { return now >= r.Until || r.Until-now > window+skew }
