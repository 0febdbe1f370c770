package memory

import (
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// Report applies what was decided without the Store. It returns store.ErrFull when it does not fit.
// Tokens of quotas are not taken, and the notices of quotas are ReportDrops's.
func (s *Store) Report(now time.Time, group store.Key, o *rules.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.at(now)
	e, _, err := s.enter(now, o.Write.Namespace, group)
	if err != nil {
		return err
	}
	e.Report(now, s.fresh(), o)
	s.measure(e)
	return nil
}

// ReportDrops lets the notice of a register report drops of Events of a namespace. It returns store.ErrFull
// when they do not fit.
func (s *Store) ReportDrops(now time.Time, namespace string, register store.Key, d *rules.Drops) error {
	if d.Total <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.at(now)
	e, _, err := s.enter(now, namespace, register)
	if err != nil {
		return err
	}
	e.AddDrops(now, s.fresh(), d)
	s.measure(e)
	return nil
}

// addDrops adds drops to the notice of a register. The caller has made sure of the bytes.
func (s *Store) addDrops(now time.Time, namespace string, register store.Key, d *rules.Drops) {
	if d.Total <= 0 {
		return
	}
	e, known := s.known(now, register)
	if !known {
		e = s.make(namespace, register)
	}
	e.AddDrops(now, s.fresh(), d)
	s.measure(e)
}
