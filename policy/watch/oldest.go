package watch

import (
	"slices"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// MaxKeptRules is how many rules of a kind are kept of a namespace, however many it has: those that may be in force, and the
// next ones, whose statuses say that they are not.
const MaxKeptRules = policy.MaxRules + keptExcluded

// keptExcluded is how many of these next ones there are.
const keptExcluded = 8

// namespacedKinds are the kinds of which namespaces have rules.
func namespacedKinds() []string { return []string{v1alpha1.KindEventPolicy, v1alpha1.KindEventQuota} }

// scope is a kind in a namespace, or in the cluster for "".
type scope struct{ namespace, kind string }

// ruleName names a rule.
type ruleName struct {
	scope
	name string
}

// oldestRules has the rules of a place in order, the oldest first. Of a namespace's it has the oldest MaxKeptRules at most.
type oldestRules struct {
	entries []*entry
	// truncated says that there are, or were, others after the last of the entries.
	truncated bool
}

// find is where the rule of a name is, or -1.
func (s *oldestRules) find(name string) int {
	return slices.IndexFunc(s.entries, func(e *entry) bool { return e.Name == name })
}

// get is the entry of a rule, or nil.
func (s *oldestRules) get(name string) *entry {
	if s == nil {
		return nil
	}
	if i := s.find(name); i >= 0 {
		return s.entries[i]
	}
	return nil
}

// put takes in an entry in place of one of the same name, if it is among the oldest, and reports whether it is.
func (s *oldestRules) put(e *entry) bool {
	if i := s.find(e.Name); i >= 0 && s.entries[i].UID == e.UID {
		s.entries[i] = e
		return true
	}
	s.remove(e.Name)
	at, _ := slices.BinarySearchFunc(s.entries, e, func(a, b *entry) int { return a.candidate.CompareAge(&b.candidate) })
	if e.Namespace == "" {
		s.entries = slices.Insert(s.entries, at, e)
		return true
	}
	if at == MaxKeptRules || at == len(s.entries) && s.truncated { // others that are not here may be older
		s.truncated = true
		return false
	}
	s.entries = slices.Insert(s.entries, at, e)
	if len(s.entries) > MaxKeptRules {
		s.entries[MaxKeptRules] = nil
		s.entries, s.truncated = s.entries[:MaxKeptRules], true
	}
	return true
}

// remove takes out the entry of a name, and reports whether there was one.
func (s *oldestRules) remove(name string) bool {
	i := s.find(name)
	if i >= 0 {
		s.entries = slices.Delete(s.entries, i, i+1)
	}
	return i >= 0
}

// incomplete reports whether there may be rules that are to be in force once another one is deleted, and are not here.
func (s *oldestRules) incomplete() bool { return s.truncated && len(s.entries) <= policy.MaxRules }

// applyBounds finds out which rules of a namespace's shelf are in force, and gives those of which that has changed.
func (s *oldestRules) applyBounds(kind string) (changed []*entry) {
	all := make([]policy.Candidate, len(s.entries))
	for i, e := range s.entries {
		all[i] = e.candidate
	}
	for i, why := range policy.Exclusions(kind, all) {
		e := s.entries[i]
		if (e.excluded == nil) != (why == nil) {
			changed = append(changed, e)
		}
		e.excluded = why
	}
	return changed
}
