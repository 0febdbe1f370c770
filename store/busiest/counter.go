package busiest

import (
	"hash/maphash"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/tally"
)

// Counter counts what one replica decides, in 1 MB at the most. It is for any
// number of goroutines.
type Counter struct {
	replica string
	since   time.Time
	seed    maphash.Seed
	tables  [kinds]table
}

// NewCounter makes a Counter that begins to count now, for a replica of a name
// that no other process has.
func NewCounter(replica string, now time.Time) *Counter {
	c := &Counter{replica: replica, since: now.UTC(), seed: maphash.MakeSeed()}
	for i := range c.tables {
		c.tables[i].index = make(map[uint64]int32, places)
	}
	return c
}

// Write is whose write was decided.
type Write struct {
	Namespace string // of the Event
	Subject   tally.Subject
	Policy    string
}

// Count counts one decision. It takes four locks for a moment, one after the
// other, allocates only for who is not followed yet, and keeps no part of w.
func (c *Counter) Count(w *Write, v store.Verdict) {
	s := &w.Subject
	c.tables[Namespace].count(c.seed, key{w.Namespace}, v)
	c.tables[Source].count(c.seed, key{s.Component, s.Host}, v)
	c.tables[Object].count(c.seed, key{s.Kind, s.Namespace, s.Name}, v)
	c.tables[Policy].count(c.seed, key{w.Policy}, v)
}

// Snapshot is what was counted until now. Rankings are each of one moment, and
// may differ by the writes that are being counted.
func (c *Counter) Snapshot(now time.Time) Snapshot {
	return Snapshot{
		Replica: Replica{Name: c.replica, Since: c.since, At: now.UTC()},
		By: map[By]Ranking{
			Namespace: c.tables[Namespace].ranking(whole),
			Source:    c.tables[Source].ranking(sourceName),
			Object:    c.tables[Object].ranking(objectName),
			Policy:    c.tables[Policy].ranking(whole),
		},
	}
}
