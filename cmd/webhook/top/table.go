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

// table is what is busiest, as it is shown. Its JSON is that of -o json.
type table struct {
	Replicas []busiest.Replica `json:"replicas"`
	Partial  bool              `json:"partial"`
	By       busiest.Dimension `json:"by"`
	// Seconds is the time in which the writes were made; 0 for all since the replicas began to count.
	Seconds float64        `json:"seconds"`
	Total   busiest.Counts `json:"total"`
	// Others are writes that are in no row, whatever the limit: there are too many to follow.
	Others int64         `json:"others"`
	Rows   []busiest.Row `json:"rows"`
}

// table is what was written between two looks or, without a first one, since the replicas began to count.
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

// meanInterval is the time between two looks: the mean over the replicas, as each reports at its own moments. It fails where
// they are not the same replicas, so that the difference of their counts is not what was written in between.
func meanInterval(before, now *busiest.Sum) (time.Duration, error) {
	same := slices.EqualFunc(before.Replicas, now.Replicas, func(a, b busiest.Replica) bool { return a.Name == b.Name })
	if !same || before.Partial != now.Partial {
		return 0, errors.New("replicas have come or gone meanwhile: try again, or with --interval 0")
	}
	var sum time.Duration
	for i, r := range now.Replicas {
		sum += r.At.Sub(before.Replicas[i].At)
	}
	return sum / time.Duration(max(1, len(now.Replicas))), nil
}

// rankingDelta is what was written between two looks, never too high: what had no row before began with nothing, but is left
// out if there were more rows than are shown.
func rankingDelta(before, now busiest.Ranking) busiest.Ranking {
	counts := map[string]busiest.Counts{}
	for _, r := range before.Rows {
		counts[r.Name] = r.Counts
	}
	between := busiest.Ranking{Total: now.Total.Since(before.Total), Rows: []busiest.Row{}}
	for _, r := range now.Rows {
		was, known := counts[r.Name]
		r.Counts = r.Since(was)
		if r.Matched() > 0 && (known || len(before.Rows) < busiest.MaxRows) {
			between.Rows = append(between.Rows, r)
		}
	}
	return between
}

// columnValue is the figure of a row in the column that is sorted by.
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

// head is the line above the table.
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
		head += fmt.Sprintf("; there are too many to follow: %d writes are in no row", t.Others)
	}
	return head
}
