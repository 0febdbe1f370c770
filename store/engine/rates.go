package engine

import (
	"math/bits"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

const (
	// maxDuration is the maximum of a duration and of the refill time of a bucket: 142 years. Times
	// before the year 2112 are below 2^52 microseconds of Unix time. Their sum with maxDuration stays
	// below 2^53, so a script of Redis can represent it without rounding.
	maxDuration = 1 << 52 * time.Microsecond
)

// micros returns d in whole microseconds, rounded up.
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

// Cost returns the refill time of one token and of a whole bucket, in microseconds.
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

// refilled returns the state at now. If the state is more than MaxSkew ahead of now, nothing refills until then, and nothing is lost.
func (v BucketState) refilled(now int64) BucketState {
	if v.At >= now && v.At-now <= maxSkew {
		return v
	}
	return BucketState{Used: max(0, v.Used-max(0, now-v.At)), At: now}
}

// TakeResult tells whether a token bucket had a token.
type TakeResult struct {
	OK bool
	// NextToken is the time of the next token; zero if OK, and if there will never be one.
	NextToken time.Time
}

// Take takes a token, if there is one, and returns the new state.
func (v BucketState) Take(l store.Limit, now time.Time) (BucketState, TakeResult) {
	one, capacity := Cost(l)
	usable := capacity - min(int64(l.Reserve)*one, capacity)
	switch {
	case l.Burst <= 0:
		return v, TakeResult{}
	case one == 0:
		return v, TakeResult{OK: true}
	case usable < one: // the reserve leaves no token
		return v, TakeResult{}
	}
	v = v.refilled(now.UnixMicro())
	if lacks := v.Used + one - usable; lacks > 0 {
		return v, TakeResult{NextToken: timeOf(v.At + lacks)}
	}
	v.Used += one
	return v, TakeResult{OK: true}
}

// ForceTake takes a token even if there is none, to count one that another replica has given.
func (v BucketState) ForceTake(l store.Limit, now time.Time) BucketState {
	one, capacity := Cost(l)
	if one == 0 || capacity == 0 {
		return v
	}
	v = v.refilled(now.UnixMicro())
	v.Used = min(v.Used+one, capacity)
	return v
}

// FullAt returns when a bucket is full if no more tokens are taken.
func (v BucketState) FullAt() time.Time { return time.UnixMicro(v.At + v.Used) }

// Tokens returns the number of tokens at now.
func (v BucketState) Tokens(l store.Limit, now time.Time) int {
	one, capacity := Cost(l)
	if one == 0 {
		return max(0, l.Burst)
	}
	return int(max(0, capacity-v.refilled(now.UnixMicro()).Used) / one)
}

// NextToken returns when there is one token more than at now; zero if the bucket is full, and if it never has any.
func (v BucketState) NextToken(l store.Limit, now time.Time) time.Time {
	one, capacity := Cost(l)
	v = v.refilled(now.UnixMicro())
	if capacity == 0 || v.Used == 0 {
		return time.Time{}
	}
	tokens := max(0, capacity-v.Used) / one
	return timeOf(v.At + v.Used - capacity + (tokens+1)*one)
}

// spamBucket returns the spam bucket of a key. An unknown bucket is full.
func (g *Group) spamBucket(key store.Key) SpamBucket {
	if i := slices.IndexFunc(g.Buckets, func(b SpamBucket) bool { return b.Key == short(key) }); i >= 0 {
		return g.Buckets[i]
	}
	return SpamBucket{Key: short(key)}
}

// saveSpamBucket stores a spam bucket, unless it is full and no reserve is used, and reports whether it did. At maxBuckets it
// replaces the bucket that will be full first, which loses least.
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

// reserveLeft returns how much of a reason's reserve is left.
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
		return 0 // other reasons have all reserves
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

// SpamState returns the state of a spam bucket of g. An unknown bucket is full.
func (g *Group) SpamState(key store.Key) BucketState { return g.spamBucket(key).BucketState }

// bucketCheck is the answer of all buckets of a write. The group stores spamAfter if they all have a token.
type bucketCheck struct {
	refusedBy *store.Bucket // the first bucket that has no token, or nil
	nextToken time.Time
	spamAfter SpamBucket // the group's spam bucket after the token is taken
}

// checkBuckets asks every bucket of a write without taking tokens. An empty spam filter lets a CREATE
// pass while its reason has a reserve. Events that got a token count against the reserve too.
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
	// retryMin and retryMax bound the time until a failed write is tried again.
	retryMin = int64(30 * time.Second / time.Microsecond)
	retryMax = int64(10 * time.Minute / time.Microsecond)
)

// configure sets the intervals to those of the newest write.
func (s *Schedule) configure(interval, most time.Duration) {
	s.Interval = micros(interval)
	s.MaxInterval = max(s.Interval, micros(most))
}

// doublings returns how often the wait is doubled at now.
func (s *Schedule) doublings(now int64) int {
	if s.MaxInterval <= 0 {
		return 0
	}
	return max(0, s.Doublings-int(min(max(0, now-s.WrittenAt)/s.MaxInterval, int64(s.Doublings))))
}

// wait returns the minimum time between the last write and the next.
func (s *Schedule) wait(now int64) int64 {
	n := s.doublings(now)
	if n >= bits.LeadingZeros64(uint64(s.Interval))-1 || s.Interval<<n > s.MaxInterval {
		return s.MaxInterval
	}
	return s.Interval << n
}

// nextWrite returns the earliest time of the next write.
func (s *Schedule) nextWrite(now int64) int64 {
	if s.WrittenAt == 0 {
		return now + s.Interval
	}
	return max(now, min(s.WrittenAt, now)+s.wait(now)) // a clock that was ahead delays nothing
}

// markChanged schedules a write.
func (s *Schedule) markChanged(now int64) {
	s.Changes++
	if ready := s.nextWrite(now); s.Due == 0 || ready < s.Due && s.FailingSince == 0 {
		s.Due = ready
	}
}

// noteCreated records a CREATE. It does not double the wait: the next write waits one Interval.
func (s *Schedule) noteCreated(now int64) {
	s.Doublings = s.doublings(now)
	s.WrittenAt = now
	s.Changes++
	s.FailingSince = 0
}

// noteWritten records a write by any client.
func (s *Schedule) noteWritten(now int64) {
	s.noteCreated(now)
	if s.Interval<<min(s.Doublings, 40) < s.MaxInterval {
		s.Doublings++
	}
}

// finishWrite records that a claimed write is over, written or not. Only changes since the claim stay pending.
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

// Due returns when the first pending write of g falls due; zero if there is none.
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
