package status

import (
	"cmp"
	"maps"
)

// maxExtraTurns is how many turns are remembered beyond two for each rule.
const maxExtraTurns = 1024

// nextWrite finds the record that is next among those that are due: of the cluster, and of the namespace that has waited longest.
type nextWrite struct {
	cluster, namespaced *ruleState
	lastTurn            uint64 // the number of the last write of own's namespace
}

func (t *nextWrite) isEmpty() bool { return t.cluster == nil && t.namespaced == nil }

// add takes in a record of a namespace with the number of its last write, or of the cluster.
func (t *nextWrite) add(r *ruleState, last uint64) {
	switch {
	case r.report.Namespace == "":
		if t.cluster == nil || r.writtenBefore(t.cluster) {
			t.cluster = r
		}
	case t.namespaced == nil || last < t.lastTurn || last == t.lastTurn && r.writtenBefore(t.namespaced):
		t.namespaced, t.lastTurn = r, last
	}
}

// choose is the record to write; nil for none. The cluster's go first, but not twice in a row while a namespace waits.
func (t *nextWrite) choose(wasCluster bool) *ruleState {
	if t.namespaced == nil || t.cluster != nil && !wasCluster {
		return t.cluster
	}
	return t.namespaced
}

// writtenBefore orders records that have the same turn: the one that was written longest ago goes first.
func (r *ruleState) writtenBefore(o *ruleState) bool {
	return cmp.Or(r.lastWrite.Compare(o.lastWrite), cmp.Compare(r.report.UID, o.report.UID)) < 0
}

// noteTurn notes whose turn is over, whether the write succeeds or not.
func (w *Writer) noteTurn(r *ruleState) {
	w.writes++
	w.wroteCluster = r.report.Namespace == ""
	w.turns[r.report.Namespace] = w.writes
}

// pruneTurns forgets those of namespaces that have no rules any more, once there are many.
func (w *Writer) pruneTurns() {
	if len(w.turns) < 2*len(w.records)+maxExtraTurns {
		return
	}
	have := make(map[string]bool, len(w.records))
	for _, r := range w.records {
		have[r.report.Namespace] = true
	}
	maps.DeleteFunc(w.turns, func(namespace string, _ uint64) bool { return !have[namespace] })
}
