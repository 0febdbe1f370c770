package watch

import (
	"slices"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// MaxKeptRules is the number of rules of a kind that are kept for a namespace, however many it has. They are the rules that may be
// in force, and the next ones, whose status says that they are not.
const MaxKeptRules = policy.MaxRules + keptExcluded

// keptExcluded is the number of these next ones.
const keptExcluded = 8

// namespacedKinds returns the kinds of rules that namespaces have.
func namespacedKinds() []string { return []string{v1alpha1.KindEventPolicy, v1alpha1.KindEventQuota} }

// scope is a kind in a namespace, or in the cluster if namespace is "".
type scope struct{ namespace, kind string }

// ruleName names a rule.
type ruleName struct {
	scope
	name string
}

// oldestRules has the rules of a scope, the oldest first. For a namespace, it has at most the oldest MaxKeptRules.
type oldestRules struct {
	entries []*entry
	// truncated reports that there are, or were, further rules after the last entry.
	truncated bool
}

// find returns the index of a rule, or -1.
func (s *oldestRules) find(name string) int {
	return slices.IndexFunc(s.entries, func(e *entry) bool { return e.Name == name })
}

// get returns the entry of a rule, or nil.
func (s *oldestRules) get(name string) *entry {
	if s == nil {
		return nil
	}
	if i := s.find(name); i >= 0 {
		return s.entries[i]
	}
	return nil
}

// put adds an entry, or replaces the one of the same name, if it is among the oldest. It reports whether it is.
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
	if at == MaxKeptRules || at == len(s.entries) && s.truncated { // rules that are not here may be older
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

// remove removes the entry of a name, and reports whether there was one.
func (s *oldestRules) remove(name string) bool {
	i := s.find(name)
	if i >= 0 {
		s.entries = slices.Delete(s.entries, i, i+1)
	}
	return i >= 0
}

// incomplete reports whether rules may be missing here that would be in force.
func (s *oldestRules) incomplete() bool { return s.truncated && len(s.entries) <= policy.MaxRules }

// applyBounds determines which rules of a namespace are in force, and returns the entries for which that has changed.
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
