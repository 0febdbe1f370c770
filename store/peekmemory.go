package store

import (
	"context"
	"slices"
	"time"
)

// Peek tells what is known of groups and shared buckets, and changes nothing but
// which of 65,536 shared buckets was used last. Each group is told as it is at one
// moment; the lock is held for one at a time.
func (m *Memory) Peek(_ context.Context, now time.Time, groups, shared []Key) (Peeked, error) {
	now = whole(now)
	p := Peeked{At: now}
	for _, key := range groups {
		if g, ok := m.peekGroup(now, key); ok {
			p.Groups = append(p.Groups, g)
		}
	}
	for _, key := range shared {
		if l := m.peekLevel(key); int64(l) > now.UnixNano() {
			p.Shared = append(p.Shared, PeekedBucket{Key: key, Full: l.time()})
		}
	}
	return p, nil
}

func (m *Memory) peekLevel(key Key) level {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sharedLevel(key)
}

func (m *Memory) peekGroup(now time.Time, key Key) (PeekedGroup, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, ok := m.groups[key]
	if !ok || g.idle != nil && now.After(g.until) {
		return PeekedGroup{}, false // as known, which forgets it
	}
	p := PeekedGroup{Key: key}
	for _, r := range g.records {
		p.Records = append(p.Records, r.peek())
	}
	for _, s := range g.similar {
		p.Similar = append(p.Similar, PeekedSimilar{s.key, s.last.UTC(), slices.Clone(s.locals)})
	}
	for _, b := range g.buckets {
		peeked := PeekedBucket{Key: b.key, Full: b.level.time()}
		for _, r := range b.reserves {
			peeked.Reserves = append(peeked.Reserves, PeekedReserve{r.reason, r.used, r.until.UTC()})
		}
		p.Buckets = append(p.Buckets, peeked)
	}
	return p, true
}

func (r *record) peek() PeekedRecord {
	p := PeekedRecord{
		ID: r.id, Name: r.name, Key: r.key, Reason: r.reason,
		Total: r.total, Own: r.own, Written: r.written, Share: r.share, Before: r.before,
		Confirmed: r.confirmed, Aggregate: r.aggregate, Series: r.series,
		Expected: nanoTime(r.expected), Seen: nanoTime(r.seen), LastWrite: nanoTime(r.lastWrite),
		Flush: r.flush, Window: r.window, Claimed: nanoTime(r.claimed),
	}
	if r.owing() {
		p.Due = nanoTime(r.due)
	}
	if r.notice != nil {
		p.Notice, p.First, p.Dropped = true, r.first.UTC(), slices.Clone(r.notice.Reasons)
	}
	return p
}

// nanoTime is a moment in nanoseconds of Unix time, 0 for no time.
func nanoTime(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

func (l level) time() time.Time { return nanoTime(int64(l)) }
