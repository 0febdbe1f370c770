package simulate

import (
	"hash/maphash"

	"github.com/eventquota/eventquota/admission"
)

// duplicates detects entries that were read before. Overlapping audit logs have the same request twice. Several lists or a
// restarted watch have the same or an earlier state of an Event.
type duplicates struct {
	seed   maphash.Seed
	seen   map[uint64]struct{} // requests, and states of Events
	events map[uint64]int      // by uid: index of the last accepted state of an Event
}

func newRepeats() duplicates {
	return duplicates{maphash.MakeSeed(), map[uint64]struct{}{}, map[uint64]int{}}
}

// checkDuplicate returns an error if an entry is a duplicate. A create of a known Event becomes an update.
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
	if d.write.Verb == create { // a restarted watch
		d.write.Verb = update
		var err error
		d.record, err = encoded(d.write)
		return err
	}
	return nil
}

// replace replaces an earlier stored state of an Event with the one in d. It does not if the earlier state is a write or has
// a higher count.
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
