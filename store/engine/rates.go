package engine

import (
	"math/bits"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

const (
	// maxDuration is the most that a duration or the refill of a bucket counts: 142 years. Moments
	// before 2^52 microseconds of Unix time, the year 2112, and what is longest after them stay
	// whole numbers below 2^53, which a script of Redis can keep without rounding.
	maxDuration = 1 << 52 * time.Microsecond
)

// micros is d in whole microseconds, rounded up.
func micros(d time.Duration) int64 {
	d = min(max(d, 0), maxDuration)
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

// timeOf converts a time of the state.
func timeOf(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(at).UTC()
}

// Cost is the use of one token and of a whole bucket, in microseconds.
func Cost(l store.Limit) (one, capacity int64) {
	one = micros(l.Every)
	if one == 0 || l.Burst <= 0 {
		return one, 0
	}
	if int64(l.Burst) > micros(maxDuration)/one {
		return one, micros(maxDuration)
	}
	return one, int64(l.Burst) * one
}

// refilled is the level at a time. Of one that is more than MaxSkew ahead, nothing comes back for that time, and nothing is lost.
func (v BucketState) refilled(now int64) BucketState {
	if v.At >= now && v.At-now <= maxSkew {
		return v
	}
	return BucketState{Used: max(0, v.Used-max(0, now-v.At)), At: now}
}

// TakeResult is the answer of a token bucket.
type TakeResult struct {
	OK bool
	// NextToken is when there is a token; zero when OK, and when there never is one.
	NextToken time.Time
}

// Take takes a token, if there is one, and returns the level after that.
func (v BucketState) Take(l store.Limit, now time.Time) (BucketState, TakeResult) {
	one, capacity := Cost(l)
	switch {
	case l.Burst <= 0:
		return v, TakeResult{}
	case one == 0:
		return v, TakeResult{OK: true}
	}
	v = v.refilled(now.UnixMicro())
	if lacks := v.Used + one - (capacity - min(int64(l.Reserve)*one, capacity)); lacks > 0 {
		return v, TakeResult{NextToken: timeOf(v.At + lacks)}
	}
	v.Used += one
	return v, TakeResult{OK: true}
}

// ForceTake takes a token even if there is none, to count one that was given elsewhere.
func (v BucketState) ForceTake(l store.Limit, now time.Time) BucketState {
	one, capacity := Cost(l)
	if one == 0 || capacity == 0 {
		return v
	}
	v = v.refilled(now.UnixMicro())
	v.Used = min(v.Used+one, capacity)
	return v
}

// FullAt is when a bucket is full, if nothing is taken any more.
func (v BucketState) FullAt() time.Time { return time.UnixMicro(v.At + v.Used) }

// Tokens is how many tokens there are.
func (v BucketState) Tokens(l store.Limit, now time.Time) int {
	one, capacity := Cost(l)
	if one == 0 {
		return max(0, l.Burst)
	}
	return int(max(0, capacity-v.refilled(now.UnixMicro()).Used) / one)
}

// NextToken is when there is one token more than at now; zero when the bucket is full, and when it never has any.
func (v BucketState) NextToken(l store.Limit, now time.Time) time.Time {
	one, capacity := Cost(l)
	v = v.refilled(now.UnixMicro())
	if capacity == 0 || v.Used == 0 {
		return time.Time{}
	}
	tokens := max(0, capacity-v.Used) / one
	return timeOf(v.At + v.Used - capacity + (tokens+1)*one)
}

// spamBucket finds the spam bucket of a key; one that is not known is full.
func (g *Group) spamBucket(key store.Key) SpamBucket {
	if i := slices.IndexFunc(g.Buckets, func(b SpamBucket) bool { return b.Key == short(key) }); i >= 0 {
		return g.Buckets[i]
	}
	return SpamBucket{Key: short(key)}
}

// saveSpamBucket stores a spam bucket and reports whether there is anything to store: not of one that is full, and of which no
// reserve is used. At the bound it replaces the one that is full first, which loses least.
func (g *Group) saveSpamBucket(b SpamBucket) bool {
	if b.Key == 0 || b.Used == 0 && len(b.Reserves) == 0 {
		return false
	}
	g.Buckets = slices.DeleteFunc(g.Buckets, func(o SpamBucket) bool { return o.Key == b.Key })
	if len(g.Buckets) >= maxBuckets {
		forgetOldest(&g.Buckets, func(o *SpamBucket) (int64, bool) { return o.At + o.Used, true })
	}
	g.Buckets = append(g.Buckets, b)
	return true
}

// reserveLeft is how much of a reason's reserve is left.
func (b *SpamBucket) reserveLeft(now int64, reason string, l *store.Limits) int {
	key := nameKey(reason)
	free := len(b.Reserves) < maxReserves
	for _, r := range b.Reserves {
		over := r.expired(now, micros(l.Window))
		if r.Reason == key && !over {
			return max(0, l.ReservePerReason-r.Used)
		}
		free = free || over
	}
	if !free {
		return 0 // other reasons hold all the places
	}
	return l.ReservePerReason
}

// useReserve counts an Event of a reason against its reserve.
func (b *SpamBucket) useReserve(now int64, reason string, l *store.Limits) {
	if b.reserveLeft(now, reason, l) == 0 {
		return
	}
	key := nameKey(reason)
	b.Reserves = slices.DeleteFunc(b.Reserves, func(r Reserve) bool { return r.expired(now, micros(l.Window)) })
	i := slices.IndexFunc(b.Reserves, func(r Reserve) bool { return r.Reason == key })
	if i < 0 {
		i = len(b.Reserves)
		b.Reserves = append(b.Reserves, Reserve{Reason: key, Until: now + micros(l.Window)})
	}
	b.Reserves[i].Used++
}

// SpamState is the level of a spam bucket of g. One that is not known is full.
func (g *Group) SpamState(key store.Key) BucketState { return g.spamBucket(key).BucketState }

// bucketCheck is the answer of the buckets of a write. The group keeps after, if they all agree.
type bucketCheck struct {
	refusedBy *store.Bucket // the first that has no token; nil when all agree
	nextToken time.Time
	spamAfter SpamBucket // the group's spam bucket once the token is taken
}

// checkBuckets asks every bucket of a write without taking tokens. An empty spam filter lets a CREATE
// through while its reason has a reserve; Events that found a token count against it too.
func (g *Group) checkBuckets(now time.Time, w *store.Write, l *store.Limits, grants []TakeResult) bucketCheck {
	at := now.UnixMicro()
	p := bucketCheck{spamAfter: g.spamBucket(l.SpamFilter.Key)}
	spare := w.Update == nil && p.spamAfter.reserveLeft(at, w.Reason, l) > 0
	if !l.SpamFilter.Key.IsZero() && (w.Update == nil || w.Update.ByRecorder) {
		var grant TakeResult
		if p.spamAfter.BucketState, grant = p.spamAfter.Take(l.SpamFilter.Limit, now); !grant.OK && !spare {
			return bucketCheck{refusedBy: &l.SpamFilter, nextToken: grant.NextToken, spamAfter: p.spamAfter}
		}
	}
	for i := range l.Quotas {
		if !grants[i].OK {
			return bucketCheck{refusedBy: &l.Quotas[i], nextToken: grants[i].NextToken, spamAfter: p.spamAfter}
		}
	}
	if spare {
		p.spamAfter.useReserve(at, w.Reason, l)
	}
	return p
}

const (
	// retryMin and retryMax bound the time after which a write that was given back is tried again.
	retryMin = int64(30 * time.Second / time.Microsecond)
	retryMax = int64(10 * time.Minute / time.Microsecond)
)

// configure takes over the settings of the newest write.
func (s *Schedule) configure(interval, most time.Duration) {
	s.Interval = micros(interval)
	s.MaxInterval = max(s.Interval, micros(most))
}

// doublings is how often the wait is doubled at now.
func (s *Schedule) doublings(now int64) int {
	if s.MaxInterval <= 0 {
		return 0
	}
	return max(0, s.Doublings-int(min(max(0, now-s.WrittenAt)/s.MaxInterval, int64(s.Doublings))))
}

// wait is the least time between the last write and the next.
func (s *Schedule) wait(now int64) int64 {
	n := s.doublings(now)
	if n >= bits.LeadingZeros64(uint64(s.Interval))-1 || s.Interval<<n > s.MaxInterval {
		return s.MaxInterval
	}
	return s.Interval << n
}

// nextWrite is when the next write may be.
func (s *Schedule) nextWrite(now int64) int64 {
	if s.WrittenAt == 0 {
		return now + s.Interval
	}
	return max(now, min(s.WrittenAt, now)+s.wait(now)) // a clock that was ahead delays nothing
}

// markChanged notes that there is something to write.
func (s *Schedule) markChanged(now int64) {
	s.Changes++
	if ready := s.nextWrite(now); s.Due == 0 || ready < s.Due && s.FailingSince == 0 {
		s.Due = ready
	}
}

// noteCreated notes a CREATE, which is no write between others: what comes next waits one Interval.
func (s *Schedule) noteCreated(now int64) {
	s.Doublings = s.doublings(now)
	s.WrittenAt = now
	s.Changes++
	s.FailingSince = 0
}

// noteWritten notes a write by anyone.
func (s *Schedule) noteWritten(now int64) {
	s.noteCreated(now)
	if s.Interval<<min(s.Doublings, 40) < s.MaxInterval {
		s.Doublings++
	}
}

// finishWrite notes that a claimed write is over, written or not: nothing is pending but changes since it was claimed.
func (s *Schedule) finishWrite(now int64, changes uint64, written bool) {
	unchanged := s.Changes == changes
	if written {
		s.noteWritten(now)
	}
	s.Changes++
	s.Due, s.FailingSince = 0, 0
	if !unchanged {
		s.Due = s.nextWrite(now)
	}
}

// backOff postpones a write that failed, for twice as long each time.
func (s *Schedule) backOff(now int64) {
	if s.FailingSince == 0 {
		s.FailingSince = now
	}
	s.Due = now + min(max(0, now-s.FailingSince)+retryMin, retryMax)
}

// Due is when the first pending write of g falls due; zero when nothing is pending.
func (g *Group) Due() time.Time {
	first := int64(0)
	earlier := func(due int64) {
		if due != 0 && (first == 0 || due < first) {
			first = due
		}
	}
	for i := range g.Events {
		earlier(g.Events[i].Due)
	}
	for i := range g.Notices {
		earlier(g.Notices[i].Due)
	}
	return timeOf(first)
}
