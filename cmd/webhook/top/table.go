package top

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// table is what is busiest, as it is shown. Its JSON is that of -o json.
type table struct {
	Replicas []busiest.Replica `json:"replicas"`
	Partial  bool              `json:"partial"`
	By       busiest.By        `json:"by"`
	Total    busiest.Counts    `json:"total"`
	// Rate is in writes a second, nil where it is not known.
	Rate *float64 `json:"rate"`
	// Others are writes that are in no row, whatever the limit: there are too many to follow.
	Others int64 `json:"others"`
	Rows   []row `json:"rows"`
}

type row struct {
	busiest.Row

	Rate *float64 `json:"rate"`
}

// table is what is busiest now, with rates since a look before.
func (o *options) table(before, now busiest.Sum) *table {
	by := busiest.By(o.By)
	ranking := now.By[by]
	t := &table{
		Replicas: now.Replicas, Partial: now.Partial, By: by, Total: ranking.Total, Others: ranking.Others(), Rows: []row{},
	}
	for _, r := range ranking.Rows {
		t.Rows = append(t.Rows, row{Row: r})
	}
	t.addRates(before.By[by], between(before, now))
	slices.SortStableFunc(t.Rows, func(a, b row) int { return cmp.Compare(b.figure(o.Sort), a.figure(o.Sort)) })
	t.Rows = t.Rows[:min(o.Limit, len(t.Rows))]
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

// write writes the table in a format.
func (t *table) write(w io.Writer, format string) error {
	if done, err := output.Write(w, format, t); done {
		return err
	}
	rows := output.NewRows(w)
	if format == output.Name {
		for _, r := range t.Rows {
			rows.Add(r.Name)
		}
		return rows.Flush()
	}
	rows.Add(t.head())
	rows.Add(strings.ToUpper(string(t.By)), "ADMITTED", "MERGED", "DROPPED", "TOTAL", "RATE/s")
	for _, r := range append([]row{{busiest.Row{Name: "(all)", Counts: t.Total}, t.Rate}}, t.Rows...) {
		rate := "-"
		if r.Rate != nil {
			rate = fmt.Sprintf("%.1f", *r.Rate)
		}
		rows.Add(r.Name, r.Admitted, r.Merged, r.Dropped, r.Matched(), rate)
	}
	return rows.Flush()
}

// head is the line above the table.
func (t *table) head() string {
	head := fmt.Sprintf("%d writes, replicas: %d", t.Total.Matched(), len(t.Replicas))
	if len(t.Replicas) > 0 {
		oldest := slices.MinFunc(t.Replicas, func(a, b busiest.Replica) int { return a.Since.Compare(b.Since) })
		head += ", since " + oldest.Since.Format(time.RFC3339)
	} else {
		head += ", as none has reported in the last five minutes; see --redis-prefix"
	}
	if t.Partial {
		head += ", others are not known as Redis does not answer"
	}
	if t.Others > 0 {
		head += fmt.Sprintf("; there are too many to follow: %d writes are in no row", t.Others)
	}
	return head
}
