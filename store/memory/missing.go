package memory

import (
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// ReportMissing lets the notice of a register say what of its drops, of Events of a namespace, is not in the sink. Where
// there is none, nothing does.
func (s *Store) ReportMissing(now time.Time, namespace string, register store.Key, m rules.Missing) {
	d := m.Drops(namespace)
	_ = s.ReportDrops(now, namespace, register, &d) // it needs no space
}

// addMissing adds drops of nothing to a notice that is known: of the register, or of the overflow bucket that took its place.
func (s *Store) addMissing(now time.Time, register store.Key, d *rules.Drops) {
	e := s.known(now, register)
	if e == nil && d.Counted() {
		if overflow, ok := d.Overflow(); ok {
			e = s.known(now, overflow)
		}
	}
	if e == nil {
		return
	}
	e.AddDrops(now, s.steps.Next(), d)
	s.measure(e)
}
