package redis

import (
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// ReportSinkLoss adds drops of Events of a namespace that are not in the sink to the notice of a register. It waits
// for the register's next attempt as drops do, and is applied after them.
func (s *Store) ReportSinkLoss(_ time.Time, namespace string, register store.Key, m engine.SinkLoss) {
	if m.Occurrences <= 0 {
		return
	}
	d := m.AsDrops(namespace)
	s.backlog.addDrops(s.opts.Now(), namespace, register, &d)
	s.opts.OnDeferred()
}
