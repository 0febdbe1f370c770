package rules

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

// bounded is n occurrences, of one write or of many, as far as one write may add up to most of them.
func bounded(n int64, w *store.Write, most int64) int64 { return n - max(0, min(n, w.Count)-most) }

// tally adds to a count, in a list of at most so many entries. An entry without a name counts what is not listed by name.
func tally(all []Listed, more Listed, most int) []Listed {
	if i := slices.IndexFunc(all, func(l Listed) bool { return l.What == more.What }); i >= 0 {
		all[i].Count += more.Count
		all[i].Weight += more.Weight
		return all
	}
	places := most - 1
	if slices.ContainsFunc(all, func(l Listed) bool { return l.What == "" }) {
		places++
	}
	if more.What == "" || len(all) < places {
		return append(all, more)
	}
	i := displaced(all, more.From)
	rest := Listed{Count: all[i].Count}
	more.Weight += all[i].Weight
	all[i] = more
	return tally(all, rest, most)
}

// latest puts an object first, once. It weighs nothing: the oldest gives way.
func latest(all []Listed, object Listed, most int) []Listed {
	i := slices.IndexFunc(all, func(l Listed) bool { return l.What == object.What })
	switch {
	case i == 0:
		return all
	case i > 0:
		all = slices.Delete(all, i, i+1)
	case len(all) >= most:
		i = displaced(all, object.From)
		all = slices.Delete(all, i, i+1)
	}
	return slices.Insert(all, 0, object)
}

// displaced is the entry of a full list that gives way to one of a namespace: the last of the lightest.
func displaced(all []Listed, from uint64) int {
	places := map[uint64]int{}
	for i := range all {
		if all[i].What != "" {
			places[all[i].From]++
		}
	}
	own, most := places[from], 0
	for _, n := range places {
		most = max(most, n)
	}
	gives := func(*Listed) bool { return true }
	switch {
	case most > own+1:
		gives = func(l *Listed) bool { return places[l.From] > own+1 }
	case own > 0:
		gives = func(l *Listed) bool { return l.From == from }
	}
	found := -1
	for i := range all {
		if l := &all[i]; l.What != "" && gives(l) && (found < 0 || l.Weight <= all[found].Weight) {
			found = i
		}
	}
	return max(found, 0) // no list of ours has nothing but the rest
}

// Tallied is what a list says to readers.
func Tallied(all []Listed) []store.Tally {
	said := make([]store.Tally, len(all))
	for i := range all {
		said[i] = store.Tally{What: all[i].What, Count: all[i].Count}
	}
	return said
}

// named are the things that a list has.
func named(all []Listed) []string {
	said := make([]string, len(all))
	for i := range all {
		said[i] = all[i].What
	}
	return said
}

// listedBytes is the size of a list, in bytes.
func listedBytes(all []Listed) int {
	n := len(all) * listedKept
	for i := range all {
		n += len(all[i].What)
	}
	return n
}

// together counts all under the empty name.
func together(all []Listed) []Listed {
	if len(all) == 0 {
		return nil
	}
	n := int64(0)
	for i := range all {
		n += all[i].Count
	}
	return []Listed{{Count: n}}
}
