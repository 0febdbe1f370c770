package storetest

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// kind is what makes Events the same but for their name.
type kind struct{ group, reason, message string }

// event is an Event or a notice as the API server stores it.
type event struct {
	kind     kind
	group    store.Key
	count    int64
	merged   int64
	known    int64       // the count that the store knows to be written
	version  int         // changes with each write
	writes   []time.Time // of the count
	stubborn bool        // refuses what the settler writes
	refused  bool        // has done so
}

// write changes the count, by a request that the store decided at a time.
func (e *event) write(at time.Time, count int64) {
	e.count = count
	e.version++
	e.writes = append(e.writes, at)
}

// pick is the name of some stored Event, or "" when there is none.
func (w *world) pick() string {
	names := make([]string, 0, len(w.stored))
	for name := range w.stored {
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return names[w.rng.IntN(len(names))]
}

// lose deletes some Event, unless it is not known how much is lost with it.
func (w *world) lose() {
	name := w.pick()
	e, a := w.stored[name], w.account(name)
	if e == nil || a.elsewhere {
		return
	}
	delete(w.stored, name)
	w.lost = append(w.lost, e)
	a.elsewhere = true
}

// label lets somebody label some Event.
func (w *world) label() {
	name := w.pick()
	e := w.stored[name]
	if e == nil || e.kind == (kind{}) {
		return
	}
	f := facts{name: name, group: e.kind.group, reason: e.kind.reason, message: e.kind.message, count: e.count}
	f.update = &store.Update{OldCount: e.count, OldMerged: e.merged}
	w.take(f)
	e.version++
}
