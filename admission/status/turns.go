package status

import (
	"cmp"
	"maps"
)

// turnsKept is how many turns are remembered beyond two for each rule.
const turnsKept = 1024

// turn finds the record that is next among those that are due: of the cluster, and of the namespace that has waited longest.
type turn struct {
	cluster, own *record
	waits        uint64 // the number of the last write of own's namespace
}

func (t *turn) none() bool { return t.cluster == nil && t.own == nil }

// add takes in a record of a namespace with the number of its last write, or of the cluster.
func (t *turn) add(r *record, last uint64) {
	switch {
	case r.report.Namespace == "":
		if t.cluster == nil || r.before(t.cluster) {
			t.cluster = r
		}
	case t.own == nil || last < t.waits || last == t.waits && r.before(t.own):
		t.own, t.waits = r, last
	}
}

// next is the record to write; nil for none. The cluster's go first, but not twice in a row while a namespace waits.
func (t *turn) next(wasCluster bool) *record {
	if t.own == nil || t.cluster != nil && !wasCluster {
		return t.cluster
	}
	return t.own
}

// before orders records that have the same turn: the one that was written longest ago goes first.
func (r *record) before(o *record) bool {
	return cmp.Or(r.wrote.Compare(o.wrote), cmp.Compare(r.report.UID, o.report.UID)) < 0
}

// taken notes whose turn is over, whether the write succeeds or not.
func (w *Writer) taken(r *record) {
	w.writes++
	w.cluster = r.report.Namespace == ""
	w.turns[r.report.Namespace] = w.writes
}

// forgetTurns forgets those of namespaces that have no rules any more, once there are many.
func (w *Writer) forgetTurns() {
	if len(w.turns) < 2*len(w.records)+turnsKept {
		return
	}
	have := make(map[string]bool, len(w.records))
	for _, r := range w.records {
		have[r.report.Namespace] = true
	}
	maps.DeleteFunc(w.turns, func(namespace string, _ uint64) bool { return !have[namespace] })
}
