package simulate

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/text"
)

// table prints rows of cells, all but the first to the right.
func table(w io.Writer, rows [][]string) {
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

// printTop prints those with the most writes.
func printTop(w io.Writer, what string, list []simulate.TopCounts) {
	rows := [][]string{{what, "ADMITTED", "MERGED", "DROPPED"}}
	for _, t := range list {
		rows = append(rows, append([]string{text.Visible(t.Name)}, counted3(t.Counts)...))
	}
	fmt.Fprintln(w)
	table(w, rows)
}

func counted3(c busiest.Counts) []string {
	return []string{fmt.Sprint(c.Admitted), fmt.Sprint(c.Merged), fmt.Sprint(c.Dropped)}
}
