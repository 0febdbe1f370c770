package redis

import (
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// ReportSinkLoss lets the notice of a register say what of its drops, of Events of a namespace, is not in the sink. It waits
// for the register's next attempt as the drops do, and is added after them.
func (s *Store) ReportSinkLoss(_ time.Time, namespace string, register store.Key, m engine.SinkLoss) {
	if m.Occurrences <= 0 {
		return
	}
	d := m.AsDrops(namespace)
	s.backlog.addDrops(s.opts.Now(), namespace, register, &d)
	s.opts.OnDeferred()
}
