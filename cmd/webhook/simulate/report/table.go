package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table writes an empty line and rows of cells, all but the first to the right.
func table(w io.Writer, rows [][]string) {
	fmt.Fprintln(w)
	var out strings.Builder
	t := tabwriter.NewWriter(&out, 0, 0, 3, ' ', tabwriter.AlignRight)
	width := 0
	for _, row := range rows {
		width = max(width, len([]rune(row[0])))
	}
	for _, row := range rows {
		fmt.Fprintf(t, "%s%s\t", row[0], strings.Repeat(" ", width-len([]rune(row[0]))))
		fmt.Fprintln(t, strings.Join(row[1:], "\t")+"\t")
	}
	_ = t.Flush()                                   // into memory
	for line := range strings.Lines(out.String()) { // the first column needs no space before it
		fmt.Fprintln(w, strings.TrimRight(strings.TrimPrefix(line, "   "), " \n"))
	}
}
