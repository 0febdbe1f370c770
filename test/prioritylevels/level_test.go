package prioritylevels

import (
	"sync"
	"testing"
	"time"

	"github.com/eventquota/eventquota/test/cluster"
)

// eventLevel is the priority level for Event writes of ordinary accounts, systemLevel that of nodes and the control plane, and listLevel the
// optional one for LISTs of Events.
const eventLevel, systemLevel, listLevel = "events", "events-system", "events-list"

// level returns the metrics of a priority level.
func level(t *testing.T, c *cluster.Cluster, name string) cluster.PriorityLevel {
	t.Helper()
	levels, err := c.PriorityLevels(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return levels[name]
}

// maxSeen has the largest values of a level that were observed.
type maxSeen struct{ seats, inLevel, queued int64 }

// watchLevel observes a level until stop is called. It observes at least once.
func watchLevel(t *testing.T, c *cluster.Cluster, name string) (stop func() maxSeen) {
	t.Helper()
	done := make(chan struct{})
	var seen maxSeen
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			levels, err := c.PriorityLevels(t.Context())
			if err != nil {
				if t.Context().Err() == nil {
					t.Error(err)
				}
				return
			}
			l := levels[name]
			seen = maxSeen{max(seen.seats, l.Seats), max(seen.inLevel, l.SeatsInUse), max(seen.queued, l.Queued)}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() maxSeen {
		close(done)
		watching.Wait()
		return seen
	}
}
