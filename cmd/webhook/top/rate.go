package top

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
)

// rateOver is how far apart the two looks are of which rates are the
// difference: as replicas tell what they count every 2 s, those of two looks in a
// row would jump.
const rateOver = 10 * time.Second

// looks are the latest looks at what is busiest, the oldest first. Each has the
// replicas of those before it, so that counts only grow.
type looks []busiest.Sum

// add adds a look. Where a replica is gone, or one has come that had counted
// before, rates begin anew.
func (l looks) add(s busiest.Sum) looks {
	switch {
	case len(l) == 0, !grows(l[len(l)-1], s):
		return looks{s}
	case between(l[len(l)-1], s) <= 0:
		return append(slices.Clone(l[:len(l)-1]), s) // nobody has told anything new
	}
	l = append(slices.Clone(l), s)
	for len(l) > 2 && between(l[1], s) >= rateOver {
		l = l[1:]
	}
	return l
}

// grows tells whether the difference of two looks is what was counted meanwhile.
func grows(before, now busiest.Sum) bool {
	if before.Partial != now.Partial {
		return false
	}
	old := map[string]bool{}
	for _, r := range before.Replicas {
		old[r.Name] = true
	}
	for _, r := range now.Replicas {
		if !old[r.Name] && r.Since.Before(moment(before)) {
			return false
		}
		delete(old, r.Name)
	}
	return len(old) == 0
}

// moment is when the replica of a look told that told last.
func moment(s busiest.Sum) (last time.Time) {
	for _, r := range s.Replicas {
		if r.At.After(last) {
			last = r.At
		}
	}
	return last
}

// between is the time between two looks: the mean of what passed for each replica
// of the first, as they do not tell at the same moments.
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

// rates gives the writes a second of rows of the latest look, never too high, or
// is nil where there is nothing to compare with.
func (l looks) rates(by busiest.By) func(busiest.Row) float64 {
	if len(l) < 2 {
		return nil
	}
	first, last := l[0], l[len(l)-1]
	seconds := between(first, last).Seconds()
	before := map[string]int64{}
	for _, r := range first.By[by].Rows {
		before[r.Name] = r.Matched()
	}
	unseen := int64(0) // who had no row began with nothing, unless there were too many
	if len(before) == busiest.MaxRows {
		unseen = first.By[by].Missing
	}
	return func(r busiest.Row) float64 {
		was, ok := before[r.Name]
		if !ok {
			was = unseen
		}
		return float64(max(r.Matched()-was, 0)) / seconds
	}
}

// totalRate is the writes a second of all. It is right where rates are not nil.
func (l looks) totalRate(by busiest.By) float64 {
	first, last := l[0], l[len(l)-1]
	grown := last.By[by].Total.Matched() - first.By[by].Total.Matched()
	return float64(max(grown, 0)) / between(first, last).Seconds()
}

// since is when the replica that has counted for longest began.
func since(s busiest.Sum) (first time.Time) {
	for _, r := range s.Replicas {
		if first.IsZero() || r.Since.Before(first) {
			first = r.Since
		}
	}
	return first
}
