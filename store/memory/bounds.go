package memory

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// stepBytes is more than one decision adds: to its group, and to the notice of a quota.
const stepBytes = 16 << 10

// enter finds or makes a group and takes it from the idle ones while a step is at it. It makes sure of
// the bytes that the step may add.
func (s *Store) enter(now time.Time, key store.Key) (e *entry, known bool, err error) {
	e, known = s.known(now, key)
	if known {
		s.wake(e)
	}
	s.shrink(now, stepBytes)
	if s.bytes+stepBytes > s.opts.Bytes {
		if known {
			s.measure(e)
		}
		return nil, known, store.ErrFull
	}
	if !known {
		e = s.make(key)
	}
	return e, known, nil
}

func (s *Store) make(key store.Key) *entry {
	e := &entry{key: key}
	s.groups[key] = e
	return e
}

// known finds a group. An idle one whose time has passed is forgotten, so that what is known does not
// depend on whether shrink came by.
func (s *Store) known(now time.Time, key store.Key) (*entry, bool) {
	e, ok := s.groups[key]
	if ok && s.past(e, now) {
		s.forget(e)
		return nil, false
	}
	return e, ok
}

// past tells whether a group is idle and does not matter any more.
func (s *Store) past(e *entry, now time.Time) bool {
	return e.idle != nil && now.UnixMicro() > e.Until
}

// measure brings the count of bytes, the idle groups and the pending ones up to date with e.
func (s *Store) measure(e *entry) {
	if s.opts.Unsettled {
		e.Discard()
	}
	size := e.Size()
	s.bytes += size - e.bytes
	e.bytes = size
	s.wake(e)
	if e.due = e.Due(); e.due.IsZero() {
		delete(s.pending, e)
		e.idle = s.idle.PushFront(e)
	} else {
		s.pending[e] = struct{}{}
	}
}

// wake takes e from the idle groups, if it is one of them.
func (s *Store) wake(e *entry) {
	if e.idle != nil {
		s.idle.Remove(e.idle)
		e.idle = nil
	}
}

// shrink forgets idle groups, the one used longest ago first, until there is space for more bytes. Of
// those whose time has passed it forgets a few at most, so that one step stays short; each step looks
// again.
func (s *Store) shrink(now time.Time, more int64) {
	const few = 8
	for n := 0; s.idle.Len() > 0; n++ {
		e := s.idle.Back().Value.(*entry)
		if s.bytes+more <= s.opts.Bytes && (n >= few || !s.past(e, now)) {
			return
		}
		s.forget(e)
	}
}

// forget forgets a group of which nothing is pending.
func (s *Store) forget(e *entry) {
	s.wake(e)
	delete(s.groups, e.key)
	s.bytes -= e.bytes
}
