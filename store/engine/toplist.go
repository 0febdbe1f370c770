package engine

import (
	"slices"

	"github.com/eventquota/eventquota/store"
)

// Bounds of what one write that is refused adds to a notice. How many occurrences it reports is its client's claim.
const (
	// MaxOccurrences bounds those that are counted: more than any recorder sees between two writes.
	MaxOccurrences = 1 << 20
	// maxWeight bounds how many of them weigh when a list of the notice is full.
	maxWeight = 100
)

// capOccurrences is n occurrences, of one write or of many, as far as one write may add up to most of them.
func capOccurrences(n int64, w *store.Write, most int64) int64 {
	return n - max(0, min(n, w.Count)-most)
}

// addToTop adds to a count, in a list of at most so many entries. An entry without a name counts what is not listed by name.
func addToTop(all []TopItem, more TopItem, most int) []TopItem {
	if i := slices.IndexFunc(all, func(l TopItem) bool { return l.Name == more.Name }); i >= 0 {
		all[i].Count += more.Count
		all[i].Weight += more.Weight
		return all
	}
	places := most - 1
	if slices.ContainsFunc(all, func(l TopItem) bool { return l.Name == "" }) {
		places++
	}
	if more.Name == "" || len(all) < places {
		return append(all, more)
	}
	i := victim(all, more.NamespaceHash)
	rest := TopItem{Count: all[i].Count}
	more.Weight += all[i].Weight
	all[i] = more
	return addToTop(all, rest, most)
}

// addNewest puts an object first, once. It weighs nothing: the oldest gives way.
func addNewest(all []TopItem, object TopItem, most int) []TopItem {
	i := slices.IndexFunc(all, func(l TopItem) bool { return l.Name == object.Name })
	switch {
	case i == 0:
		return all
	case i > 0:
		all = slices.Delete(all, i, i+1)
	case len(all) >= most:
		i = victim(all, object.NamespaceHash)
		all = slices.Delete(all, i, i+1)
	}
	return slices.Insert(all, 0, object)
}

// victim is the entry of a full list that gives way to one of a namespace: the last of the lightest.
func victim(all []TopItem, from uint64) int {
	places := map[uint64]int{}
	for i := range all {
		if all[i].Name != "" {
			places[all[i].NamespaceHash]++
		}
	}
	own, most := places[from], 0
	for _, n := range places {
		most = max(most, n)
	}
	gives := func(*TopItem) bool { return true }
	switch {
	case most > own+1:
		gives = func(l *TopItem) bool { return places[l.NamespaceHash] > own+1 }
	case own > 0:
		gives = func(l *TopItem) bool { return l.NamespaceHash == from }
	}
	found := -1
	for i := range all {
		if l := &all[i]; l.Name != "" && gives(l) && (found < 0 || l.Weight <= all[found].Weight) {
			found = i
		}
	}
	return max(found, 0) // no list of ours has nothing but the rest
}

// Tallies is what a list says to readers.
func Tallies(all []TopItem) []store.Tally {
	said := make([]store.Tally, len(all))
	for i := range all {
		said[i] = store.Tally{Name: all[i].Name, Count: all[i].Count}
	}
	return said
}

// itemNames are the things that a list has.
func itemNames(all []TopItem) []string {
	said := make([]string, len(all))
	for i := range all {
		said[i] = all[i].Name
	}
	return said
}

// topItemsBytes is the size of a list, in bytes.
func topItemsBytes(all []TopItem) int {
	n := len(all) * topItemBytes
	for i := range all {
		n += len(all[i].Name)
	}
	return n
}

// sumAll counts all under the empty name.
func sumAll(all []TopItem) []TopItem {
	if len(all) == 0 {
		return nil
	}
	n := int64(0)
	for i := range all {
		n += all[i].Count
	}
	return []TopItem{{Count: n}}
}
