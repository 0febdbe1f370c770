package engine

import "time"

// MaxSkew is how far ahead of now a time of the state may be. Clocks that differ by more have jumped.
const MaxSkew = 10 * time.Second

const maxSkew = int64(MaxSkew / time.Microsecond)

// CorrectTimes puts right what a clock has left in g that was ahead and is not any more: a moment in the past is now at the
// latest, and what is due waits for no longer from now than it did from the last step. So a clock that was a day ahead
// delays nothing by a day, neither a write nor the end of a window. Times up to MaxSkew ahead of now are as they are, as
// clocks of replicas differ. Each step begins with it; a store that sees its clock go back does it to what is pending.
// Levels of quotas are corrected where they are read.
func (g *Group) CorrectTimes(now time.Time) {
	c := correction{now: now.UnixMicro()}
	isRight := g.correctedAt != 0 && g.correctedAt <= c.now
	g.correctedAt = c.now
	if isRight {
		return
	}
	for i := range g.Events {
		g.Events[i].correct(&c)
	}
	for i := range g.Notices {
		g.Notices[i].correct(&c)
	}
	for i := range g.Similar {
		c.fixPast(&g.Similar[i].Last)
	}
	for i := range g.RefusedNames {
		at := int64(g.RefusedNames[i].At) * second
		if c.fixPast(&at) {
			g.RefusedNames[i].At = seconds(at)
		}
	}
	for i := range g.Buckets {
		c.fixPast(&g.Buckets[i].At)
	}
	if c.ahead == 0 {
		return
	}
	c.fixEnd(&g.KeepUntil)
	for i := range g.Buckets {
		for n := range g.Buckets[i].Reserves {
			c.fixEnd(&g.Buckets[i].Reserves[n].Until)
		}
	}
}

// correction corrects times, and keeps by how much the latest of them was ahead.
type correction struct{ now, ahead int64 }

// fixPast corrects a time in the past, and reports whether that changed it.
func (c *correction) fixPast(at *int64) bool {
	if *at-c.now <= maxSkew {
		return false
	}
	c.ahead = max(c.ahead, *at-c.now)
	*at = c.now
	return true
}

// fixEnd corrects when a window ends that has begun by then.
func (c *correction) fixEnd(until *int64) {
	if *until-c.now > maxSkew {
		*until = max(c.now, *until-c.ahead)
	}
}

// fixDue corrects when something is due that waits since the latest of some moments, and for so long at most.
func (c *correction) fixDue(due *int64, longest int64, since ...*int64) {
	last := int64(0)
	for _, at := range since {
		last = max(last, *at)
		c.fixPast(at)
	}
	if *due == 0 {
		return
	}
	if last-c.now <= maxSkew {
		last = *due - longest // by a clock that was right, or else it was not due for longer
	}
	if wait := min(max(*due-last, 0), longest); *due-c.now > wait+maxSkew {
		*due = c.now + wait
	}
}

func (r *TrackedEvent) correct(c *correction) {
	c.fixDue(&r.Due, max(r.Interval, r.MaxInterval, retryMax, r.Window), &r.ReceivedAt, &r.WrittenAt, &r.FailingSince)
	if r.LastSeen-c.now > micros(maxFuture) { // by the writer's clock, which may be ahead by this
		r.LastSeen = c.now
	}
}

func (n *Notice) correct(c *correction) {
	c.fixDue(&n.Due, max(n.Interval, n.MaxInterval, retryMax), &n.Last, &n.WrittenAt, &n.FailingSince, &n.OpenedAt)
	c.fixPast(&n.First)
}

// expired reports whether a reserve has ended, whose window may have begun by a clock that was ahead.
func (r *Reserve) expired(now, window int64) bool {
	return now >= r.Until || r.Until-now > window+maxSkew
}
