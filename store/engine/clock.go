package engine

import "time"

// MaxSkew is how far in the future a time of the state may be. If it is further, a clock has jumped.
const MaxSkew = 10 * time.Second

const maxSkew = int64(MaxSkew / time.Microsecond)

// CorrectTimes corrects times in g from a clock that was ahead. Past times become now if they are later, and a due write waits
// no longer from now than it waited from the last step. So a clock that was a day ahead
// delays neither a write nor the end of a window by a day. Times up to MaxSkew ahead of now stay, as
// the clocks of replicas differ. Each step begins with CorrectTimes, and a store whose clock goes back calls it for pending groups.
// Buckets of quotas are corrected when they are read.
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

// correction corrects times, and records by how much the latest of them was ahead.
type correction struct{ now, ahead int64 }

// fixPast corrects a past time, and reports whether it changed.
func (c *correction) fixPast(at *int64) bool {
	if *at-c.now <= maxSkew {
		return false
	}
	c.ahead = max(c.ahead, *at-c.now)
	*at = c.now
	return true
}

// fixEnd corrects the end of a window that has begun.
func (c *correction) fixEnd(until *int64) {
	if *until-c.now > maxSkew {
		*until = max(c.now, *until-c.ahead)
	}
}

// fixDue corrects a due time, which is at most longest after the latest of since.
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
		last = *due - longest // by a correct clock, otherwise it would not be due so late
	}
	if wait := min(max(*due-last, 0), longest); *due-c.now > wait+maxSkew {
		*due = c.now + wait
	}
}

func (r *TrackedEvent) correct(c *correction) {
	c.fixDue(&r.Due, max(r.Interval, r.MaxInterval, retryMax, r.Window), &r.ReceivedAt, &r.WrittenAt, &r.FailingSince)
	if r.LastSeen-c.now > micros(maxFuture) { // the writer's clock may be ahead by this
		r.LastSeen = c.now
	}
}

func (n *Notice) correct(c *correction) {
	c.fixDue(&n.Due, max(n.Interval, n.MaxInterval, retryMax), &n.Last, &n.WrittenAt, &n.FailingSince, &n.OpenedAt)
	c.fixPast(&n.First)
}

// expired reports whether the window of a reserve has ended. It may have begun by a clock that was ahead.
func (r *Reserve) expired(now, window int64) bool {
	return now >= r.Until || r.Until-now > window+maxSkew
}
