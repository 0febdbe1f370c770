package status

import (
	"cmp"
	"maps"
)

// maxExtraTurns is how many turns are remembered in addition to two for each rule.
const maxExtraTurns = 1024

// nextWrite selects the next rule to write among those that are due: one of the cluster, and one of the namespace that has waited
// longest.
type nextWrite struct {
	cluster, namespaced *ruleState
	lastTurn            uint64 // the number of the last write for the namespace of namespaced
}

func (n *nextWrite) isEmpty() bool { return n.cluster == nil && n.namespaced == nil }

// add considers a rule that is due. last is the number of the last write for its namespace.
func (n *nextWrite) add(r *ruleState, last uint64) {
	switch {
	case r.report.Namespace == "":
		if n.cluster == nil || r.writtenBefore(n.cluster) {
			n.cluster = r
		}
	case n.namespaced == nil || last < n.lastTurn || last == n.lastTurn && r.writtenBefore(n.namespaced):
		n.namespaced, n.lastTurn = r, last
	}
}

// choose returns the rule to write, or nil for none. Rules of the cluster go first, but not twice in a row while a namespace waits.
func (n *nextWrite) choose(wasCluster bool) *ruleState {
	if n.namespaced == nil || n.cluster != nil && !wasCluster {
		return n.cluster
	}
	return n.namespaced
}

// writtenBefore orders rules with the same turn: the least recently written one goes first.
func (r *ruleState) writtenBefore(o *ruleState) bool {
	return cmp.Or(r.lastWrite.Compare(o.lastWrite), cmp.Compare(r.report.UID, o.report.UID)) < 0
}

// noteTurn records the turn of a rule's namespace, whether its write succeeds or not.
func (w *Writer) noteTurn(r *ruleState) {
	w.writes++
	w.wroteCluster = r.report.Namespace == ""
	w.turns[r.report.Namespace] = w.writes
}

// pruneTurns forgets the turns of namespaces without rules once there are many.
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
