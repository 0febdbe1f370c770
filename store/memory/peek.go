package memory

import (
	"context"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// Peek copies what is known of groups and of the levels of quotas. It changes nothing but which levels
// were used last. Each group is as it is at one moment; the lock is held for one at a time. The Store
// has no clock: State.At is the time of the latest step.
func (s *Store) Peek(_ context.Context, groups, levels []store.Key) (rules.State, error) {
	st := rules.State{Groups: map[store.Key]*rules.Group{}, Levels: map[store.Key]rules.Level{}}
	for _, key := range groups {
		s.peekGroup(key, &st)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range levels {
		if v := s.level(key); v != (rules.Level{}) {
			st.Levels[key] = v
		}
	}
	st.At = s.last
	return st, nil
}

func (s *Store) peekGroup(key store.Key, st *rules.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if place := s.groups.Get(key); place != nil && !place.Value.Expired(s.last) {
		st.Groups[key] = place.Value.Clone()
	}
}

// From makes a Store that goes on from a copy of what another holds: at st.At it decides as the other
// would, as far as that was copied.
func From(st rules.State) *Store {
	s := New(Options{Bytes: DefaultBytes})
	for key, v := range st.Levels {
		s.setLevel("", key, v)
	}
	for key, g := range st.Groups {
		e := s.make(g.Namespace, key)
		e.Group = *g.Clone()
		s.measure(e)
	}
	s.last = st.At
	return s
}
