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
	at, reason, b := now.UnixMicro(), store.Clip(reason, reasonBytes), g.bucket(l.Spam.Key)
	left = b.reserve(at, reason, l)
	until := int64(0)
	for _, r := range b.Reserves {
		switch {
		case at < r.Until && r.Reason == nameKey(reason):
			return left, moment(r.Until)
		case at < r.Until && left == 0 && (until == 0 || r.Until < until):
			until = r.Until // other reasons hold all the places until then
		}
	}
	return left, moment(until)
}

// Next is when there is one token more than at now; zero when the bucket is full, and when it never has any.
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
