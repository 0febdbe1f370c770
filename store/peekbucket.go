package store

import "time"

// Bucket is the spam bucket of terms, by what p knows: one of the group or, where
// groups share it, that of all of them with the reserves of the group. One that is
// not known is full.
func (p *Peeked) Bucket(group Key, t *Terms) PeekedBucket {
	own := PeekedBucket{Key: t.Spam.Key}
	if g, ok := p.Group(group); ok {
		own = bucketOf(g.Buckets, t.Spam.Key)
	}
	if t.SharedSpam {
		own.Full = p.Level(t.Spam.Key)
	}
	return own
}

// Level is when a quota or shared spam bucket is full again. One that is not known
// is full.
func (p *Peeked) Level(shared Key) time.Time { return bucketOf(p.Shared, shared).Full }

func bucketOf(list []PeekedBucket, key Key) PeekedBucket {
	for _, b := range list {
		if b.Key == key {
			return b
		}
	}
	return PeekedBucket{Key: key}
}

// Left is how many tokens a bucket has at now that is full again at full, and when
// it has one more: zero when it is full, and when it never has any.
func (lim Limit) Left(full, now time.Time) (tokens int, next time.Time) {
	lim.Every = wholeTime(lim.Every)
	used := max(full.Sub(now), 0)
	switch {
	case lim.Burst <= 0:
		return 0, time.Time{}
	case lim.Every <= 0 || used == 0:
		return lim.Burst, time.Time{}
	}
	free := max(lim.refill()-used, 0)
	return int(free / lim.Every), now.Add(lim.Every - free%lim.Every)
}

// Reserve is how many Events of a reason are admitted at now though the bucket has
// no token, of perReason in each window, and when there are as many as can be
// again: zero when there are.
func (b *PeekedBucket) Reserve(reason string, perReason int, now time.Time) (left int, renewed time.Time) {
	key := KeyOf(reason)
	first := time.Time{}
	for _, r := range b.Reserves {
		if !now.Before(r.Until) {
			if r.Reason == key {
				return perReason, time.Time{}
			}
			continue // its place is free
		}
		if r.Reason == key {
			if r.Used <= 0 {
				return perReason, time.Time{}
			}
			return max(perReason-r.Used, 0), r.Until
		}
		if first.IsZero() || r.Until.Before(first) {
			first = r.Until
		}
	}
	if perReason > 0 && b.places(now) >= maxReasons {
		return 0, first // when the first of the others gives up its place
	}
	return max(perReason, 0), time.Time{}
}

// places is how many reasons hold one at now.
func (b *PeekedBucket) places(now time.Time) (n int) {
	for _, r := range b.Reserves {
		if now.Before(r.Until) {
			n++
		}
	}
	return n
}
