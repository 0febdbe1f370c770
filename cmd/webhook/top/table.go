package top

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// table has the rows to print. Its JSON is that of -o json.
type table struct {
	Replicas []busiest.Replica `json:"replicas"`
	Partial  bool              `json:"partial"`
	By       busiest.Dimension `json:"by"`
	// Seconds is the time that the counts cover; 0 for all since the replicas began to count.
	Seconds float64        `json:"seconds"`
	Total   busiest.Counts `json:"total"`
	// Others is the number of writes in no row, whatever the limit, as there are too many keys to track.
	Others int64         `json:"others"`
	Rows   []busiest.Row `json:"rows"`
}

// table counts the writes between two sums or, if before is nil, since the replicas began to count.
func (o *options) table(before, now *busiest.Sum) (*table, error) {
	t := &table{Replicas: now.Replicas, Partial: now.Partial, By: busiest.Dimension(o.By)}
	ranking := now.Rankings[t.By]
	if before != nil {
		interval, err := meanInterval(before, now)
		if err != nil {
			return nil, err
		}
		t.Seconds, ranking = interval.Seconds(), rankingDelta(before.Rankings[t.By], ranking)
	}
	t.Total, t.Others, t.Rows = ranking.Total, ranking.Others(), ranking.Rows
	slices.SortFunc(t.Rows, func(a, b busiest.Row) int {
		return cmp.Or(cmp.Compare(columnValue(&b, o.Sort), columnValue(&a, o.Sort)), cmp.Compare(b.Matched(), a.Matched()), cmp.Compare(a.Name, b.Name))
	})
	t.Rows = t.Rows[:min(o.Limit, len(t.Rows))]
	return t, nil
}

// meanInterval returns the time between two sums: the mean over the replicas, as each shares its counts at its own times. It fails if
// the replicas differ, because the difference of their counts is then not the writes in between.
func meanInterval(before, now *busiest.Sum) (time.Duration, error) {
	same := slices.EqualFunc(before.Replicas, now.Replicas, func(a, b busiest.Replica) bool { return a.Name == b.Name })
	if !same || before.Partial != now.Partial {
		return 0, errors.New("replicas started or stopped within the interval: try again, or use --interval 0")
	}
	var sum time.Duration
	for i, r := range now.Replicas {
		sum += r.At.Sub(before.Replicas[i].At)
	}
	return sum / time.Duration(max(1, len(now.Replicas))), nil
}

// rankingDelta returns the writes between two rankings. Its counts are never too high: a new row starts from 0, but is left out if
// the earlier ranking was cut at MaxRows.
func rankingDelta(before, now busiest.Ranking) busiest.Ranking {
	counts := map[string]busiest.Counts{}
	for _, r := range before.Rows {
		counts[r.Name] = r.Counts
	}
	delta := busiest.Ranking{Total: now.Total.Since(before.Total), Rows: []busiest.Row{}}
	for _, r := range now.Rows {
		previous, known := counts[r.Name]
		r.Counts = r.Since(previous)
		if r.Matched() > 0 && (known || len(before.Rows) < busiest.MaxRows) {
			delta.Rows = append(delta.Rows, r)
		}
	}
	return delta
}

// columnValue returns the value of a row in the column to sort by.
func columnValue(r *busiest.Row, sort string) int64 {
	return map[string]int64{"admitted": r.Admitted, "merged": r.Merged, "dropped": r.Dropped, "total": r.Matched()}[sort]
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
	rows.Add(strings.ToUpper(string(t.By)), "ADMITTED", "MERGED", "DROPPED", "TOTAL")
	for _, r := range append([]busiest.Row{{Name: "(all)", Counts: t.Total}}, t.Rows...) {
		rows.Add(r.Name, r.Admitted, r.Merged, r.Dropped, r.Matched())
	}
	return rows.Flush()
}

// head returns the line above the table.
func (t *table) head() string {
	head := fmt.Sprintf("%d writes", t.Total.Matched())
	if t.Seconds > 0 {
		head += fmt.Sprintf(" in %.1fs (%.1f/s)", t.Seconds, float64(t.Total.Matched())/t.Seconds)
	}
	head += fmt.Sprintf(", replicas: %d", len(t.Replicas))
	if t.Seconds == 0 && len(t.Replicas) > 0 {
		oldest := slices.MinFunc(t.Replicas, func(a, b busiest.Replica) int { return a.Since.Compare(b.Since) })
		head += ", since " + oldest.Since.Format(time.RFC3339)
	}
	if t.Partial {
		head += ", counts of others may be missing"
	}
	if t.Others > 0 {
		head += fmt.Sprintf("; there are too many to track: %d writes are in no row", t.Others)
	}
	return head
}
