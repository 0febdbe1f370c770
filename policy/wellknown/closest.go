// Package wellknown has the names that Kubernetes writes into Events, and finds the name that a misspelt one was meant to be.
package wellknown

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

const (
	// perEdit is how many letters a name must have for each edit: a missing, additional or wrong
	// letter, or two swapped letters.
	perEdit = 5
	// minLetters is how many letters a name must have to be compared at all, except for its case.
	minLetters = 4
	// maxLetters bounds compared names. No name of Kubernetes is longer.
	maxLetters = 64
)

// Closest returns the name that a misspelt one was most likely meant to be: it differs in case, is a plural, or differs by a few
// edits. It returns "" if the name is one of names, or close to none.
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

// swapped reports whether two adjacent letters are swapped.
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

// plurals returns the possible plurals of a kind, as in names of resources.
func plurals(name string) []string {
	all := []string{name + "s", name + "es"}
	if stem, ok := strings.CutSuffix(name, "y"); ok {
		all = append(all, stem+"ies")
	}
	return all
}
