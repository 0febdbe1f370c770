package rules

import (
	"slices"

	"github.com/eventquota/eventquota/store"
)

// Similar counts the distinct messages of Events that are alike but for their message, as
// client-go's EventAggregator does.
type Similar struct {
	Key      uint64   `cbor:"1,keyasint"`
	Last     int64    `cbor:"2,keyasint"`
	Messages []uint64 `cbor:"3,keyasint,omitempty"` // at most Limits.MaxEvents-1
}

// correlate tells which stored Event w belongs to and whether that is an aggregate. It changes
// nothing; observe does.
//
// client-go keeps MaxEvents-1 messages once it aggregates and forgets an arbitrary one for each new
// one. Here the newest is not taken in, which is one of the choices that client-go has, and the one
// under which the Events stored before the aggregate go on counting their own repeats.
func (g *Group) correlate(now int64, w *store.Write, l *store.Limits) (key store.Key, aggregate bool) {
	known := g.messages(now, w.Similar, l)
	if len(known) < l.MaxEvents && slices.Contains(known, short(w.Message)) || len(known)+1 < l.MaxEvents {
		return w.Exact, false
	}
	return w.Similar, true
}

// messages are the distinct messages of similar Events within the window.
func (g *Group) messages(now int64, similar store.Key, l *store.Limits) []uint64 {
	key := short(similar)
	i := slices.IndexFunc(g.Similar, func(s Similar) bool { return s.Key == key })
	if i < 0 || now-g.Similar[i].Last > micros(l.Window) {
		return nil
	}
	return g.Similar[i].Messages
}

// observe takes in the message of w. At the bound of kinds it takes the place of the one that came
// longest ago.
func (g *Group) observe(now int64, w *store.Write, l *store.Limits) {
	known := g.messages(now, w.Similar, l)
	i := slices.IndexFunc(g.Similar, func(s Similar) bool { return s.Key == short(w.Similar) })
	switch {
	case i >= 0:
	case len(g.Similar) < maxSimilar:
		i = len(g.Similar)
		g.Similar = append(g.Similar, Similar{})
	default:
		i = 0
		for j := range g.Similar {
			if g.Similar[j].Last < g.Similar[i].Last {
				i = j
			}
		}
	}
	if !slices.Contains(known, short(w.Message)) && len(known)+1 < l.MaxEvents {
		known = append(known, short(w.Message))
	}
	g.Similar[i] = Similar{Key: short(w.Similar), Last: now, Messages: known}
}
