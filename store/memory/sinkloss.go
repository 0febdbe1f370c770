package memory

import (
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// ReportSinkLoss adds drops of Events of a namespace that are not in the sink to the notice of a register. Without
// such a notice it does nothing.
func (s *Store) ReportSinkLoss(now time.Time, namespace string, register store.Key, m engine.SinkLoss) {
	d := m.AsDrops(namespace)
	_ = s.ReportDrops(now, namespace, register, &d) // it needs no space
}

// addSinkLoss adds the loss to an existing notice: that of the register, or of the overflow bucket that has replaced it.
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
