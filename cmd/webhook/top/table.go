package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/text"
)

// table is one look as it is shown. Its JSON is a line of -o json.
type table struct {
	// At is when a replica reported last; zero where there is none.
	At       time.Time         `json:"at"`
	Replicas []busiest.Replica `json:"replicas"`
	Partial  bool              `json:"partial"`
	By       busiest.By        `json:"by"`
	Sort     string            `json:"sort"`
	Total    busiest.Counts    `json:"total"`
	// Rate is in writes a second, nil where there is no earlier look.
	Rate    *float64 `json:"rate"`
	Missing int64    `json:"missing"`
	Rows    []row    `json:"rows"`
}

type row struct {
	busiest.Row

	Rate *float64 `json:"rate"`
}

// show is the latest of looks, of which there is at least one, with up to limit rows.
func (l looks) show(by busiest.By, sort string, limit int) table {
	last := l[len(l)-1]
	ranking := last.By[by]
	t := table{
		At: lastReport(last), Replicas: last.Replicas, Partial: last.Partial, By: by, Sort: sort,
		Total: ranking.Total, Missing: ranking.Missing, Rows: []row{},
	}
	for _, r := range ranking.Rows {
		t.Rows = append(t.Rows, row{Row: r})
	}
	l.addRates(&t)
	slices.SortStableFunc(t.Rows, func(a, b row) int { return cmp.Compare(b.figure(sort), a.figure(sort)) })
	t.Rows = t.Rows[:min(limit, len(t.Rows))]
	return t
}

// figure is the figure of a row in the column that is sorted by.
func (r *row) figure(sort string) float64 {
	counts := map[string]int64{"admitted": r.Admitted, "merged": r.Merged, "dropped": r.Dropped}
	if count, is := counts[sort]; is {
		return float64(count)
	}
	if sort == "rate" && r.Rate != nil {
		return *r.Rate
	}
	return float64(r.Matched())
}

// head is the line above the table.
func (t *table) head() string {
	replicas := "1 replica"
	if n := len(t.Replicas); n != 1 {
		replicas = fmt.Sprintf("%d replicas", n)
	}
	head := fmt.Sprintf("%s, %d writes", replicas, t.Total.Matched())
	if len(t.Replicas) > 0 {
		oldest := slices.MinFunc(t.Replicas, func(a, b busiest.Replica) int { return a.Since.Compare(b.Since) })
		head += " since " + oldest.Since.Format(time.RFC3339)
	}
	if t.Partial {
		head += ", other replicas are not known as Redis does not answer"
	}
	return head
}

// foot is the line below the table: what the rows do not have, if there is something.
func (t *table) foot() string {
	missing := int64(0)
	for _, r := range t.Rows {
		missing = max(missing, r.Missing)
	}
	switch {
	case len(t.Replicas) == 0:
		return "no replica has reported in the last five minutes; see --redis-prefix"
	case missing > 0:
		return fmt.Sprintf("there are too many to follow: each has up to %d writes more", missing)
	}
	return ""
}

// cells are the names of the columns, the total, and the rows. Wide ones say what counts may lack.
func (t *table) cells(wide bool) [][]string {
	names := []string{strings.ToUpper(string(t.By)), "ADMITTED", "MERGED", "DROPPED", "TOTAL", "RATE/s", "MISSING"}
	names[slices.Index(sortNames(), t.Sort)+1] += "*"
	cells := [][]string{names}
	for _, r := range append([]row{{busiest.Row{Name: "(all)", Counts: t.Total}, t.Rate}}, t.Rows...) {
		rate := "-"
		if r.Rate != nil {
			rate = fmt.Sprintf("%.1f", *r.Rate)
		}
		cells = append(cells, []string{r.Name, fmt.Sprint(r.Admitted), fmt.Sprint(r.Merged), fmt.Sprint(r.Dropped), fmt.Sprint(r.Matched()), rate, fmt.Sprint(r.Missing)})
	}
	for i := range cells {
		if !wide {
			cells[i] = cells[i][:len(names)-1]
		}
	}
	return cells
}

// linesBeside is how many lines of a page are no rows: the head, the names of columns, the total, the foot, and the one
// that the cursor is on.
const linesBeside = 5

// page is the table with its head and foot. A height and a width above 0 are those of the terminal that it fits.
func (t *table) page(wide bool, width, height int) string {
	if height > 0 {
		t.Rows = t.Rows[:min(len(t.Rows), max(height-linesBeside, 1))]
	}
	lines := append([]string{t.head()}, columns(t.cells(wide), width)...)
	if foot := t.foot(); foot != "" {
		lines = append(lines, foot)
	}
	if width > 0 {
		for i := range lines {
			lines[i] = fmt.Sprintf("%.*s", width, lines[i])
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// leastName is how many characters a name has at least.
const leastName = 12

// columns are rows of cells as lines, the first cell to the left and all others to the right. To make lines no longer
// than a width that is more than 0, first cells are cut, but not below leastName characters.
func columns(cells [][]string, width int) (lines []string) {
	widths, others := make([]int, len(cells[0])), 0
	for i := range widths {
		for _, row := range cells {
			row[i] = text.Visible(row[i])
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		if i > 0 {
			others += widths[i] + 2
		}
	}
	if width > 0 {
		widths[0] = min(widths[0], max(width-others, leastName))
	}
	for _, row := range cells {
		var line strings.Builder
		fmt.Fprintf(&line, "%-*.*s", widths[0], widths[0], row[0])
		for i, cell := range row[1:] {
			fmt.Fprintf(&line, "  %*s", widths[i+1], cell)
		}
		lines = append(lines, line.String())
	}
	return lines
}
