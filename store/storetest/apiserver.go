package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// event is an Event or a notice as the API server stores it.
type event struct {
	kind     kind // none of a notice
	object   store.Key
	keys     [2]store.Key // exact and similar
	recorder bool         // its client goes on with it
	series   bool
	combined bool
	count    int64
	merged   int64 // as noted with the count noted
	noted    int64
	by       int   // the store that noted it; 0 for none
	known    int64 // the count that the store knows to be written
	uid      string
	version  string
	created  time.Time
	writes   []time.Time // of the count
	crashes  int         // of settlers after a write
	stubborn bool        // rejects what the settler writes
}

// says is what an Event says of its count to the store of a settler.
func (e *event) says(to *settler) store.Stored {
	return store.Stored{
		Count: e.count, Merged: e.merged,
		Overwritten: e.merged != 0 && e.count != e.noted, Foreign: e.by != 0 && e.by != to.id,
	}
}

// store writes the count of an Event, by a request that was decided at a time.
func (w *world) store(name string, e *event, count int64, decided time.Time) {
	e.version = w.version()
	if w.stored[name] == nil {
		e.uid = "uid-" + e.version
		w.stored[name] = e
	}
	e.count = count
	if !w.draining {
		e.writes = append(e.writes, decided)
	}
	w.say("stored %s %d, version %s", name, count, e.version)
}

func (w *world) version() string {
	w.versions++
	return fmt.Sprint(w.versions)
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

// lose deletes some Event, unless it is not known how much is lost with it, or so many are lost that
// any sum is likely.
func (w *world) lose() {
	name := w.pick()
	e := w.stored[name]
	if e == nil || len(w.lost) > 12 && !w.faults.Return {
		return
	}
	for a, c := range w.accounts {
		if a.name == name && c.elsewhere {
			return
		}
	}
	w.say("lost %s %d", name, e.count)
	delete(w.stored, name)
	w.lost = append(w.lost, e)
}
