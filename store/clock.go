package store

import (
	"slices"
	"time"
)

// longest is the most that a duration or the refill of a bucket counts: 142
// years. Moments before 2^52 microseconds of Unix time, the year 2112, and what
// is longest after them are whole numbers below 2^53, which every store can
// keep without rounding.
const longest = 1 << 52 * time.Microsecond

// whole is the moment that a store takes now for.
func whole(now time.Time) time.Time { return now.Truncate(time.Microsecond) }

// wholeTime is the time that a store counts for d.
func wholeTime(d time.Duration) time.Duration {
	d = min(max(d, 0), longest)
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// rounded is t in the times that a store counts. It leaves the caller's
// Quotas as they are.
func (t Terms) rounded() Terms {
	t.Window, t.RepeatWindow = wholeTime(t.Window), wholeTime(t.RepeatWindow)
	t.FlushInterval = wholeTime(t.FlushInterval)
	t.Spam.Every = wholeTime(t.Spam.Every)
	if slices.ContainsFunc(t.Quotas, func(q Bucket) bool { return q.Every != wholeTime(q.Every) }) {
		t.Quotas = slices.Clone(t.Quotas)
		for i := range t.Quotas {
			t.Quotas[i].Every = wholeTime(t.Quotas[i].Every)
		}
	}
	return t
}

// rounded is w with the moment that a store takes At for.
func (w Write) rounded() Write {
	first, last := time.UnixMicro(1).UTC(), time.UnixMicro(1<<53-1).UTC()
	switch {
	case w.At.IsZero():
	case w.At.Before(first):
		w.At = first
	case w.At.After(last):
		w.At = last
	default:
		w.At = w.At.Truncate(time.Microsecond)
	}
	return w
}
