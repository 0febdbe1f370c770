package rules

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// SpamBucket is a token bucket of a source and object, with the reserves that let a rare reason
// through when it is empty. Of a spam filter that groups share it has the group's reserves only.
type SpamBucket struct {
	Key      uint64 `cbor:"1,keyasint"`
	Level    `cbor:"2,keyasint,omitempty"`
	Reserves []Reserve `cbor:"3,keyasint,omitempty"`
}

// Reserve counts the Events of one reason that were admitted in a window.
type Reserve struct {
	Reason uint64 `cbor:"1,keyasint"`
	Used   int    `cbor:"2,keyasint"`
	Until  int64  `cbor:"3,keyasint"`
}

// bucket finds the spam bucket of a key; one that is not known is full.
func (g *Group) bucket(key store.Key) SpamBucket {
	if i := slices.IndexFunc(g.Buckets, func(b SpamBucket) bool { return b.Key == short(key) }); i >= 0 {
		return g.Buckets[i]
	}
	return SpamBucket{Key: short(key)}
}

// keep keeps a spam bucket. At the bound it takes the place of the fullest, which loses least.
func (g *Group) keep(b SpamBucket) {
	i := slices.IndexFunc(g.Buckets, func(o SpamBucket) bool { return o.Key == b.Key })
	switch {
	case i >= 0:
	case len(g.Buckets) < maxBuckets:
		i = len(g.Buckets)
		g.Buckets = append(g.Buckets, b)
	default:
		i = 0
		for j := range g.Buckets {
			if g.Buckets[j].At+g.Buckets[j].Used < g.Buckets[i].At+g.Buckets[i].Used {
				i = j
			}
		}
	}
	g.Buckets[i] = b
}

// filter is the spam filter that a write is asked for: of its own source and object, or the one of
// the quotas that many share.
func filter(l *store.Limits) *store.Bucket {
	for i := range l.Quotas {
		if l.Quotas[i].SpamFilter {
			return &l.Quotas[i]
		}
	}
	return &l.Spam
}

// reserve is how much of a reason's reserve is left.
func (b *SpamBucket) reserve(now int64, reason string, l *store.Limits) int {
	key := nameKey(reason)
	free := len(b.Reserves) < maxReserves
	for _, r := range b.Reserves {
		if r.Reason == key && now < r.Until {
			return max(0, l.ReservePerReason-r.Used)
		}
		free = free || now >= r.Until
	}
	if !free {
		return 0 // other reasons hold all the places
	}
	return l.ReservePerReason
}

// useReserve counts an Event of a reason against its reserve.
func (b *SpamBucket) useReserve(now int64, reason string, l *store.Limits) {
	if b.reserve(now, reason, l) == 0 {
		return
	}
	key := nameKey(reason)
	i := slices.IndexFunc(b.Reserves, func(r Reserve) bool { return r.Reason == key })
	if i < 0 {
		i = slices.IndexFunc(b.Reserves, func(r Reserve) bool { return now >= r.Until })
	}
	if i < 0 {
		i = len(b.Reserves)
		b.Reserves = append(b.Reserves, Reserve{})
	}
	if r := &b.Reserves[i]; r.Reason != key || now >= r.Until {
		*r = Reserve{Reason: key, Until: now + micros(l.Window)}
	}
	b.Reserves[i].Used++
}

// payment is what the buckets of a write answer.
type payment struct {
	empty *store.Bucket // the first that has no token; nil when all agree
	next  time.Time
	after SpamBucket // the group's spam bucket once the token is taken
}

// pay asks every bucket of a write, and takes from none. An empty spam filter lets a CREATE through
// while its reason has a reserve; Events that found a token count against it too.
func (g *Group) pay(now time.Time, w *store.Write, l *store.Limits, grants []Grant) payment {
	at := now.UnixMicro()
	shared := filter(l)
	p := payment{after: g.bucket(shared.Key)}
	spare := w.Update == nil && p.after.reserve(at, w.Reason, l) > 0
	if !l.Spam.Key.IsZero() && (w.Update == nil || w.Update.Recorder) {
		var grant Grant
		if p.after.Level, grant = p.after.Take(l.Spam.Limit, now); !grant.OK && !spare {
			return payment{empty: &l.Spam, next: grant.Next, after: p.after}
		}
	}
	for i := range l.Quotas {
		b := &l.Quotas[i]
		if !grants[i].OK && (!b.SpamFilter || !spare) && l.Charges(w, store.Admit, i) {
			return payment{empty: b, next: grants[i].Next, after: p.after}
		}
	}
	if spare {
		p.after.Reserves = slices.Clone(p.after.Reserves)
		p.after.useReserve(at, w.Reason, l)
	}
	return p
}

// paid takes what pay found, and tells whether there was anything to take.
func (g *Group) paid(p *payment) bool {
	keep := p.after.Key != 0 && (p.after.Used > 0 || len(p.after.Reserves) > 0)
	if keep {
		g.keep(p.after)
	}
	return keep
}
