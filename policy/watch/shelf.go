package watch

import (
	"slices"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// MaxKept is how many rules of a kind are kept of a namespace, however many it has: those that may be in force, and the
// next ones, whose statuses say that they are not.
const MaxKept = policy.MaxRules + keptBeyond

// keptBeyond is how many of these next ones there are.
const keptBeyond = 8

// ownKinds are the kinds of which namespaces have rules.
func ownKinds() []string { return []string{v1alpha1.KindEventPolicy, v1alpha1.KindEventQuota} }

// place is a kind in a namespace, or in the cluster for "".
type place struct{ namespace, kind string }

// ruleName names a rule.
type ruleName struct {
	place
	name string
}

// shelf has the rules of a place in order, the oldest first. Of a namespace's it has the oldest MaxKept at most.
type shelf struct {
	entries []*entry
	// more says that there are, or were, others after the last of the entries.
	more bool
}

// find is where the rule of a name is, or -1.
func (s *shelf) find(name string) int {
	return slices.IndexFunc(s.entries, func(e *entry) bool { return e.Name == name })
}

// get is the entry of a rule, or nil.
func (s *shelf) get(name string) *entry {
	if s == nil {
		return nil
	}
	if i := s.find(name); i >= 0 {
		return s.entries[i]
	}
	return nil
}

// put takes in an entry in place of one of the same name, if it is among the oldest, and reports whether it is.
func (s *shelf) put(e *entry) bool {
	if i := s.find(e.Name); i >= 0 && s.entries[i].UID == e.UID {
		s.entries[i] = e
		return true
	}
	s.remove(e.Name)
	at, _ := slices.BinarySearchFunc(s.entries, e, func(a, b *entry) int { return a.candidate.Older(&b.candidate) })
	if e.Namespace == "" {
		s.entries = slices.Insert(s.entries, at, e)
		return true
	}
	if at == MaxKept || at == len(s.entries) && s.more { // others that are not here may be older
		s.more = true
		return false
	}
	s.entries = slices.Insert(s.entries, at, e)
	if len(s.entries) > MaxKept {
		s.entries[MaxKept] = nil
		s.entries, s.more = s.entries[:MaxKept], true
	}
	return true
}

// remove takes out the entry of a name, and reports whether there was one.
func (s *shelf) remove(name string) bool {
	i := s.find(name)
	if i >= 0 {
		s.entries = slices.Delete(s.entries, i, i+1)
	}
	return i >= 0
}

// short reports whether there may be rules that are to be in force once another one is deleted, and are not here.
func (s *shelf) short() bool { return s.more && len(s.entries) <= policy.MaxRules }

// bound finds out which rules of a namespace's shelf are in force, and gives those of which that has changed.
func (s *shelf) bound(kind string) (changed []*entry) {
	all := make([]policy.Candidate, len(s.entries))
	for i, e := range s.entries {
		all[i] = e.candidate
	}
	for i, why := range policy.Beyond(kind, all) {
		e := s.entries[i]
		if (e.beyond == nil) != (why == nil) {
			changed = append(changed, e)
		}
		e.beyond = why
	}
	return changed
}
