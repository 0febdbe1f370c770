package store

import "time"

// spamBucket is a token bucket of a source and object, with the reserves that
// let a rare reason through when it is empty. Of one that groups share it has the
// group's reserves only; the level stays that of a full one.
type spamBucket struct {
	key      Key
	level    level
	reserves []reserve
}

// reserve counts the Events of one reason that were admitted in a window.
type reserve struct {
	reason Key
	used   int
	until  time.Time
}

// bucket finds or makes the spam bucket of a key. At the bound it takes the
// place of the fullest, which loses least.
func (g *group) bucket(key Key) *spamBucket {
	fullest := 0
	for i := range g.buckets {
		if g.buckets[i].key == key {
			return &g.buckets[i]
		}
		if g.buckets[i].level < g.buckets[fullest].level {
			fullest = i
		}
	}
	if len(g.buckets) < maxBuckets {
		g.buckets = append(g.buckets, spamBucket{key: key})
		return &g.buckets[len(g.buckets)-1]
	}
	g.buckets[fullest] = spamBucket{key: key}
	return &g.buckets[fullest]
}

// reserveFor finds or makes the reserve of a reason, renewed when its window
// has passed. It is nil when other reasons hold all the places.
func (b *spamBucket) reserveFor(now time.Time, reason string, window time.Duration) *reserve {
	key := KeyOf(reason)
	var free *reserve
	for i := range b.reserves {
		r := &b.reserves[i]
		if r.reason == key || free == nil && !now.Before(r.until) {
			free = r
		}
		if r.reason == key {
			break
		}
	}
	if free == nil && len(b.reserves) < maxReasons {
		b.reserves = append(b.reserves, reserve{})
		free = &b.reserves[len(b.reserves)-1]
	}
	if free != nil && (free.reason != key || !now.Before(free.until)) {
		*free = reserve{reason: key, until: now.Add(window)}
	}
	return free
}
