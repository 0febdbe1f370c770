package simulate

import (
	"hash/maphash"

	"github.com/eventquota/eventquota/admission"
)

// duplicates are what a recording has had: the same request of two logs that overlap, the same state of an Event of two lists or
// of a watch that began again, and earlier states of an Event.
type duplicates struct {
	seed   maphash.Seed
	seen   map[uint64]struct{} // requests, and states of Events
	events map[uint64]int      // states of Events by uid: where the index has the last one that was taken
}

func newRepeats() duplicates {
	return duplicates{maphash.MakeSeed(), map[uint64]struct{}{}, map[uint64]int{}}
}

// checkDuplicate says why an entry adds nothing to what was read before, and makes of the others what they are after that.
func (t *Trace) checkDuplicate(d *decoded) error {
	if d.same != "" {
		same := maphash.String(t.seed, d.same)
		if _, known := t.seen[same]; known {
			return skipped("duplicates")
		}
		t.seen[same] = struct{}{}
	}
	if d.uid == "" || d.write.Verb == remove {
		return nil
	}
	uid := maphash.String(t.seed, d.uid)
	at, known := t.events[uid]
	t.events[uid] = len(t.index)
	if !known {
		return nil
	}
	if d.write.Verb == stored {
		return t.replace(at, d, uid)
	}
	if d.write.Verb == create { // a watch that began again
		d.write.Verb = update
		var err error
		d.record, err = encoded(d.write)
		return err
	}
	return nil
}

// replace has an Event that was found stored once more take the place of what was known of it, if that was found stored too and
// happened as often at most.
func (t *Trace) replace(at int, d *decoded, uid uint64) error {
	const older = skipped("earlier states of an Event")
	before, err := t.spool.read(t.index[at].offset)
	if err != nil {
		return err
	}
	if before.Verb != stored || admission.Occurrences(before.event) > admission.Occurrences(d.write.event) {
		t.events[uid] = at
		return older
	}
	t.Input.Fewest -= Fewest.steps(before)
	t.Input.Most -= Most.steps(before)
	t.Input.Skipped[string(older)]++
	t.index[at].offset = -1
	return nil
}
