package rules

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// Level is how much of a token bucket is used: the time in which what is used comes back, and when
// that was true, both in microseconds. The zero value is a full bucket. Nobody has to refill it:
// what has come back since is subtracted when it is looked at.
type Level struct {
	Used int64 `cbor:"1,keyasint,omitempty"`
	At   int64 `cbor:"2,keyasint,omitempty"`
}

const (
	// longest is the most that a duration or the refill of a bucket counts: 142 years. Moments
	// before 2^52 microseconds of Unix time, the year 2112, and what is longest after them stay
	// whole numbers below 2^53, which a script of Redis can keep without rounding.
	longest = 1 << 52 * time.Microsecond
	// skew is how far ahead of now a Level may be. Clocks that are told apart by more than that
	// have jumped: then nothing comes back for that time, and nothing is lost either.
	skew = int64(10 * time.Second / time.Microsecond)
)

// micros is d in whole microseconds, rounded up.
func micros(d time.Duration) int64 {
	d = min(max(d, 0), longest)
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

// moment is a time of the state as callers know it.
func moment(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(at).UTC()
}

// Cost is what one token uses up, in microseconds, and what all of them do.
func Cost(l store.Limit) (one, capacity int64) {
	one = micros(l.Every)
	if one == 0 || l.Burst <= 0 {
		return one, 0
	}
	if int64(l.Burst) > micros(longest)/one {
		return one, micros(longest)
	}
	return one, int64(l.Burst) * one
}

// at is the level once what has come back by now is subtracted.
func (v Level) at(now int64) Level {
	if v.At >= now && v.At-now <= skew {
		return v
	}
	return Level{Used: max(0, v.Used-max(0, now-v.At)), At: now}
}

// Grant is the answer of a token bucket.
type Grant struct {
	OK bool
	// Next is when there is a token; zero when OK, and when there never is one.
	Next time.Time
}

// Take takes a token, if there is one, and returns the level after that.
func (v Level) Take(l store.Limit, now time.Time) (Level, Grant) {
	one, capacity := Cost(l)
	switch {
	case l.Burst <= 0:
		return v, Grant{}
	case one == 0:
		return v, Grant{OK: true}
	}
	v = v.at(now.UnixMicro())
	if lacks := v.Used + one - capacity; lacks > 0 {
		return v, Grant{Next: moment(v.At + lacks)}
	}
	v.Used += one
	return v, Grant{OK: true}
}

// Force takes a token whether there is one or not, so that what was given elsewhere is counted.
func (v Level) Force(l store.Limit, now time.Time) Level {
	one, capacity := Cost(l)
	if one == 0 || capacity == 0 {
		return v
	}
	v = v.at(now.UnixMicro())
	v.Used = min(v.Used+one, capacity)
	return v
}

// GiveBack returns n tokens that were taken some time ago and not used: each for less by that
// time, as it has come back by itself meanwhile. It never makes a token.
func (v Level) GiveBack(l store.Limit, now time.Time, n int, out time.Duration) Level {
	one, _ := Cost(l)
	v = v.at(now.UnixMicro())
	v.Used = max(0, v.Used-int64(n)*max(0, one-micros(out)))
	return v
}

// Tokens is how many tokens there are.
func (v Level) Tokens(l store.Limit, now time.Time) int {
	one, capacity := Cost(l)
	if one == 0 {
		return max(0, l.Burst)
	}
	return int(max(0, capacity-v.at(now.UnixMicro()).Used) / one)
}

// Full is when the bucket is full again, if nothing is taken.
func (v Level) Full() time.Time { return moment(v.At + v.Used) }

// refill is the time in which an empty bucket becomes full, in microseconds.
func refill(l store.Limit) int64 {
	_, capacity := Cost(l)
	return capacity
}
