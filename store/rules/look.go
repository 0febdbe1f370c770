package rules

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// Spam is the level of a spam bucket of g. One that is not known is full.
func (g *Group) Spam(key store.Key) Level { return g.bucket(key).Level }

// Reserve is how many more Events of a reason the reserve of g admits at now, and when it admits as
// many as it can again; zero when it does.
func (g *Group) Reserve(now time.Time, reason string, l *store.Limits) (left int, renewed time.Time) {
	b := g.bucket(l.Spam.Key)
	at, key, first := now.UnixMicro(), nameKey(store.Clip(reason, reasonBytes)), int64(0)
	left = b.reserve(at, store.Clip(reason, reasonBytes), l)
	for _, r := range b.Reserves {
		switch {
		case at >= r.Until:
			continue
		case r.Reason == key:
			return left, moment(r.Until)
		case first == 0 || r.Until < first:
			first = r.Until
		}
	}
	if left == 0 {
		return 0, moment(first) // other reasons hold all the places until then
	}
	return left, time.Time{}
}

// Next is when there is one token more than at now; zero when the bucket is full, and when it never
// has any.
func (v Level) Next(l store.Limit, now time.Time) time.Time {
	one, capacity := Cost(l)
	v = v.at(now.UnixMicro())
	if capacity == 0 || v.Used == 0 {
		return time.Time{}
	}
	tokens := max(0, capacity-v.Used) / one
	return moment(v.At + v.Used - capacity + (tokens+1)*one)
}

// State is a copy of a part of what a store holds.
type State struct {
	At     time.Time // by the clock of the store
	Groups map[store.Key]*Group
	Levels map[store.Key]Level // of quotas
}
