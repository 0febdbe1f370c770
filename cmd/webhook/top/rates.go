package top

import (
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
)

// between is the time between two looks: the mean over the replicas, as each reports at its own moments. It is 0 where
// they are not the same replicas, so that the difference of their counts is not what was written in between.
func between(before, now busiest.Sum) time.Duration {
	if before.Partial != now.Partial || len(before.Replicas) != len(now.Replicas) || len(now.Replicas) == 0 {
		return 0
	}
	var sum time.Duration
	for i, r := range now.Replicas { // sorted by their names
		if r.Name != before.Replicas[i].Name {
			return 0
		}
		sum += r.At.Sub(before.Replicas[i].At)
	}
	return sum / time.Duration(len(now.Replicas))
}

// addRates adds to t the writes a second of its rows since a look before, never too high, and those of all. There are
// none where no replica has reported since.
func (t *table) addRates(before busiest.Ranking, since time.Duration) {
	if since <= 0 {
		return
	}
	rate := func(before, now int64) *float64 { return new(float64(max(now-before, 0)) / since.Seconds()) }
	t.Rate = rate(before.Total.Matched(), t.Total.Matched())
	counts := map[string]int64{}
	for _, r := range before.Rows {
		counts[r.Name] = r.Matched()
	}
	unseen := int64(0) // what had no row began with nothing, unless there were more rows than are shown
	if n := len(before.Rows); n == busiest.MaxRows {
		unseen = before.Rows[n-1].Matched()
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		was, ok := counts[r.Name]
		if !ok {
			was = unseen
		}
		r.Rate = rate(was, r.Matched())
	}
}
