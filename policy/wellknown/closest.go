// Package known has what Kubernetes writes into Events, and finds what a name that is near to one of these was meant to be.
package wellknown

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

const (
	// perEdit is how many letters a name must have for each letter that is missing, too many or another
	// one. Two that have changed places are one.
	perEdit = 5
	// minLetters is how many it must have to be taken for another one at all, but for its case.
	minLetters = 4
	// maxLetters bounds what is compared: no name of Kubernetes is longer.
	maxLetters = 64
)

// Closest is the one of some names that a name was surely meant to be: it has another case, is its plural, or has a few
// letters that are missing, too many or others. It is empty if the name is among them, or near none.
func Closest(name string, names []string) string {
	if slices.Contains(names, name) || name == "" || len(name) > maxLetters {
		return ""
	}
	folded, best, fewest := strings.ToLower(name), "", maxLetters
	for _, one := range slices.Sorted(slices.Values(names)) {
		other := strings.ToLower(one)
		edits := 0
		if folded != other && !slices.Contains(plurals(other), folded) {
			edits = levenshtein.ComputeDistance(folded, other)
			if swapped(folded, other) {
				edits = 1
			}
			if len(folded) < minLetters || edits > max(1, max(len(folded), len(other))/perEdit) {
				continue
			}
		}
		if edits < fewest {
			best, fewest = one, edits
		}
	}
	return best
}

// swapped reports whether two letters that follow each other have changed places.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i+1 < len(a); i++ {
		if a[i] != b[i] {
			return a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		}
	}
	return false
}

// plurals are those that a name of a kind may have, as names of resources have them.
func plurals(name string) []string {
	all := []string{name + "s", name + "es"}
	if stem, ok := strings.CutSuffix(name, "y"); ok {
		all = append(all, stem+"ies")
	}
	return all
}
