package top

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
)

// rateOver is the least time between the two looks that rates are the difference of, once there are enough: as
// replicas report their counts every 2 s, rates between two looks in a row would jump.
const rateOver = 10 * time.Second

// looks are the latest looks at what is busiest, the oldest first. Each has the replicas of those before it, so
// that counts only grow.
type looks []busiest.Sum

// add adds a look. When a replica has left, or one has come that had counted before, rates start again.
func (l looks) add(s busiest.Sum) looks {
	switch {
	case len(l) == 0, !grows(l[len(l)-1], s):
		return looks{s}
	case between(l[len(l)-1], s) <= 0:
		return append(slices.Clone(l[:len(l)-1]), s) // no replica has reported since
	}
	l = append(slices.Clone(l), s)
	for len(l) > 2 && between(l[1], s) >= rateOver {
		l = l[1:]
	}
	return l
}

// grows reports whether the difference of two looks is what was counted between them.
func grows(before, now busiest.Sum) bool {
	if before.Partial != now.Partial {
		return false
	}
	known := map[string]bool{}
	for _, r := range before.Replicas {
		known[r.Name] = true
	}
	for _, r := range now.Replicas {
		if !known[r.Name] && r.Since.Before(lastReport(before)) {
			return false
		}
		delete(known, r.Name)
	}
	return len(known) == 0
}

// lastReport is when a replica of a look reported last.
func lastReport(s busiest.Sum) (last time.Time) {
	for _, r := range s.Replicas {
		if r.At.After(last) {
			last = r.At
		}
	}
	return last
}

// between is the time between two looks: the mean over the replicas of the first, as each reports at its own
// moments.
func between(first, last busiest.Sum) time.Duration {
	at := map[string]time.Time{}
	for _, r := range last.Replicas {
		at[r.Name] = r.At
	}
	var sum time.Duration
	for _, r := range first.Replicas {
		sum += at[r.Name].Sub(r.At)
	}
	return sum / time.Duration(max(len(first.Replicas), 1))
}

// addRates adds to t, of the latest look, the writes a second of its rows, never too high, and those of all. There are
// none where there is nothing to compare with.
func (l looks) addRates(t *table) {
	if len(l) < 2 {
		return
	}
	first := l[0].By[t.By]
	seconds := between(l[0], l[len(l)-1]).Seconds()
	rate := func(before, now int64) *float64 { return new(float64(max(now-before, 0)) / seconds) }
	t.Rate = rate(first.Total.Matched(), t.Total.Matched())
	before := map[string]int64{}
	for _, r := range first.Rows {
		before[r.Name] = r.Matched()
	}
	unseen := int64(0) // what had no row began with nothing, unless there were too many rows
	if len(before) == busiest.MaxRows {
		unseen = first.Missing
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		was, ok := before[r.Name]
		if !ok {
			was = unseen
		}
		r.Rate = rate(was, r.Matched())
	}
}
