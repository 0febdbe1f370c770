package store

import (
	"slices"
	"time"
)

// similar counts the distinct messages of Events that are alike but for their
// message, as client-go's EventAggregator does.
type similar struct {
	key    Key
	last   time.Time
	locals []Key // at most Terms.MaxEvents-1 messages
}

// correlate tells which stored Event w belongs to and whether that is an
// aggregate.
//
// client-go keeps MaxEvents-1 messages once it aggregates and forgets an
// arbitrary one for each new one. Here the newest is not taken in, which is one
// of the choices that client-go has, and the one under which the Events stored
// before the aggregate go on counting their own repeats.
func (g *group) correlate(now time.Time, w Write, t Terms) (Key, bool) {
	s := g.similarTo(w.Similar)
	if now.Sub(s.last) > t.Window {
		s.locals = nil
	}
	s.last = now
	if len(s.locals) < t.MaxEvents && slices.Contains(s.locals, w.Message) {
		return w.Exact, false
	}
	if len(s.locals)+1 < t.MaxEvents {
		s.locals = append(s.locals, w.Message)
		return w.Exact, false
	}
	return w.Similar, true
}

// similarTo finds or makes the entry for key; at the bound it takes the place
// of the one used longest ago.
func (g *group) similarTo(key Key) *similar {
	oldest := 0
	for i := range g.similar {
		if g.similar[i].key == key {
			return &g.similar[i]
		}
		if g.similar[i].last.Before(g.similar[oldest].last) {
			oldest = i
		}
	}
	if len(g.similar) < maxSimilar {
		g.similar = append(g.similar, similar{key: key})
		return &g.similar[len(g.similar)-1]
	}
	g.similar[oldest] = similar{key: key}
	return &g.similar[oldest]
}
