package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
)

// finding is one violation of one rule.
type finding struct {
	file    string
	line    int
	rule    string
	message string
	excerpt string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s: %q", f.file, f.line, f.rule, f.message, f.excerpt)
}

// printCounts prints the number of findings per file and rule, the largest first, and a total per rule.
func printCounts(out io.Writer, all []finding) {
	type key struct{ file, rule string }
	counts := map[key]int{}
	totals := map[string]int{}
	for _, f := range all {
		counts[key{f.file, f.rule}]++
		totals[f.rule]++
	}
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b key) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a.file, b.file), cmp.Compare(a.rule, b.rule))
	})
	for _, k := range keys {
		fmt.Fprintf(out, "%5d %s %s\n", counts[k], k.file, k.rule)
	}
	for _, rule := range slices.Sorted(maps.Keys(totals)) {
		fmt.Fprintf(out, "%5d total %s\n", totals[rule], rule)
	}
}
