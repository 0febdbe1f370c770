package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/store/busiest"
)

// table prints rows of cells, all but the first to the right.
func table(w io.Writer, rows [][]string) {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 3, ' ', tabwriter.AlignRight)
	width := 0
	for _, row := range rows {
		width = max(width, len([]rune(row[0])))
	}
	for _, row := range rows {
		fmt.Fprintf(t, "%s%s\t", row[0], strings.Repeat(" ", width-len([]rune(row[0]))))
		fmt.Fprintln(t, strings.Join(row[1:], "\t")+"\t")
	}
	_ = t.Flush()                                    // into memory
	for line := range strings.Lines(text.String()) { // the first column needs no space before it
		fmt.Fprintln(w, strings.TrimRight(strings.TrimPrefix(line, "   "), " \n"))
	}
}

// printable is s without what could change what a terminal shows.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// printTop prints those with the most writes.
func printTop(w io.Writer, what string, list []simulate.TopCounts) {
	rows := [][]string{{what, "ADMITTED", "MERGED", "DROPPED"}}
	for _, t := range list {
		rows = append(rows, append([]string{printable(t.Name)}, counted3(t.Counts)...))
	}
	fmt.Fprintln(w)
	table(w, rows)
}

func counted3(c busiest.Counts) []string {
	return []string{fmt.Sprint(c.Admitted), fmt.Sprint(c.Merged), fmt.Sprint(c.Dropped)}
}
