package memory

import (
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// ReportSinkLoss lets the notice of a register say what of its drops, of Events of a namespace, is not in the sink. Where
// there is none, nothing does.
func (s *Store) ReportSinkLoss(now time.Time, namespace string, register store.Key, m engine.SinkLoss) {
	d := m.AsDrops(namespace)
	_ = s.ReportDrops(now, namespace, register, &d) // it needs no space
}

// addSinkLoss adds drops of nothing to a notice that is known: of the register, or of the overflow bucket that took its place.
func (s *Store) addSinkLoss(now time.Time, register store.Key, d *engine.Drops) {
	e := s.lookup(now, register)
	if e == nil && d.IsCounted() {
		if overflow, ok := d.Overflow(); ok {
			e = s.lookup(now, overflow)
		}
	}
	if e == nil {
		return
	}
	e.AddDrops(now, s.steps.Next(), d)
	s.updateAccounting(e)
}
