package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
)

// shown is one look as it is shown. Its JSON is a line of -o json.
type shown struct {
	// At is when the replica told that told last; zero where there is none.
	At       time.Time         `json:"at"`
	Replicas []busiest.Replica `json:"replicas"`
	Partial  bool              `json:"partial"`
	By       string            `json:"by"`
	Sort     string            `json:"sort"`
	Total    busiest.Counts    `json:"total"`
	// Rate is in writes a second, nil where there is no earlier look.
	Rate    *float64   `json:"rate"`
	Missing int64      `json:"missing"`
	Rows    []shownRow `json:"rows"`
}

type shownRow struct {
	busiest.Row

	Rate *float64 `json:"rate"`
}

// show is the latest of looks, of which there is one at least, with limit rows at
// the most.
func (l looks) show(by busiest.By, sort string, limit int) shown {
	last := l[len(l)-1]
	ranking := last.By[by]
	s := shown{
		At: moment(last), Replicas: last.Replicas, Partial: last.Partial, By: by.String(), Sort: sort,
		Total: ranking.Total, Missing: ranking.Missing, Rows: make([]shownRow, 0, len(ranking.Rows)),
	}
	rate := l.rates(by)
	for _, r := range ranking.Rows {
		row := shownRow{Row: r}
		if rate != nil {
			row.Rate = new(rate(r))
		}
		s.Rows = append(s.Rows, row)
	}
	if rate != nil {
		s.Rate = new(l.totalRate(by))
	}
	slices.SortStableFunc(s.Rows, func(a, b shownRow) int { return cmp.Compare(b.figure(sort), a.figure(sort)) })
	s.Rows = s.Rows[:min(limit, len(s.Rows))]
	return s
}

// figure is the figure of a row that a sort is about.
func (r *shownRow) figure(sort string) float64 {
	switch sort {
	case "admitted":
		return float64(r.Admitted)
	case "merged":
		return float64(r.Merged)
	case "dropped":
		return float64(r.Dropped)
	case "rate":
		if r.Rate != nil {
			return *r.Rate
		}
	}
	return float64(r.Matched())
}

// head says in a line of what the table is.
func (s *shown) head() string {
	head := fmt.Sprintf("%s, %d writes", many(len(s.Replicas), "replica"), s.Total.Matched())
	if len(s.Replicas) > 0 {
		head += " since " + since(busiest.Sum{Replicas: s.Replicas}).Format(time.RFC3339)
	}
	if s.Partial {
		head += ", others are not known as Redis does not answer"
	}
	return head
}

// foot says in a line what the rows do not have, if there is something.
func (s *shown) foot() string {
	missing := int64(0)
	for _, r := range s.Rows {
		missing = max(missing, r.Missing)
	}
	switch {
	case len(s.Replicas) == 0:
		return "no replica has told anything here in the last five minutes; see --redis-prefix"
	case missing > 0:
		return fmt.Sprintf("there are too many to follow: each has up to %d writes more", missing)
	}
	return ""
}

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// cells are those of the table: its columns' names, all, and each row; wide ones say what counts may lack.
func (s *shown) cells(wide bool) [][]string {
	cells := [][]string{{strings.ToUpper(s.By), "ADMITTED", "MERGED", "DROPPED", "TOTAL", "RATE/s"}}
	for i, name := range sortNames() {
		if name == s.Sort {
			cells[0][i+1] += "*"
		}
	}
	line := func(name string, c busiest.Counts, rate *float64) {
		per := "-"
		if rate != nil {
			per = fmt.Sprintf("%.1f", *rate)
		}
		cells = append(cells, []string{name, fmt.Sprint(c.Admitted), fmt.Sprint(c.Merged), fmt.Sprint(c.Dropped), fmt.Sprint(c.Matched()), per})
	}
	line("(all)", s.Total, s.Rate)
	for _, r := range s.Rows {
		line(r.Name, r.Counts, r.Rate)
	}
	if wide {
		cells[0], cells[1] = append(cells[0], "MISSING"), append(cells[1], "0")
		for i, r := range s.Rows {
			cells[i+2] = append(cells[i+2], fmt.Sprint(r.Missing))
		}
	}
	return cells
}
