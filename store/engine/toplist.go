package engine

import (
	"slices"

	"github.com/eventquota/eventquota/store"
)

// Bounds of the occurrences that one refused write adds to a notice. The client may claim any number.
const (
	// MaxOccurrences bounds the counted ones. It is more than any recorder sees between two writes.
	MaxOccurrences = 1 << 20
	// maxWeight bounds their weight in a full list of the notice.
	maxWeight = 100
)

// capOccurrences returns n, the occurrences of one or many writes, but at most most for one write.
func capOccurrences(n int64, w *store.Write, most int64) int64 {
	return n - max(0, min(n, w.Count)-most)
}

// addToTop adds to a count in a list of at most most entries. An entry without a name counts everything that is not listed.
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

// addNewest moves an object to the front or adds it there. In a full list it replaces the oldest.
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

// victim returns the index of the entry of a full list that a new entry of a namespace replaces: the last of the lightest.
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
	return max(found, 0) // every full list has a named entry
}

// Tallies returns a list as readers see it.
func Tallies(all []TopItem) []store.Tally {
	said := make([]store.Tally, len(all))
	for i := range all {
		said[i] = store.Tally{Name: all[i].Name, Count: all[i].Count}
	}
	return said
}

// itemNames returns the names of a list.
func itemNames(all []TopItem) []string {
	said := make([]string, len(all))
	for i := range all {
		said[i] = all[i].Name
	}
	return said
}

// topItemsBytes returns the size of a list, in bytes.
func topItemsBytes(all []TopItem) int {
	n := len(all) * topItemBytes
	for i := range all {
		n += len(all[i].Name)
	}
	return n
}

// sumAll replaces a list by one entry without a name that has the sum.
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
