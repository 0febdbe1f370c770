package report

import (
	"fmt"
	"time"
)

// maxNotes is how many notes of a kind are shown.
const maxNotes = 10

// notes say what of the rules had no effect or failed.
func (r *Run) notes() (all []string) {
	for i, u := range r.Unused {
		if i == maxNotes {
			all = append(all, fmt.Sprintf("%s more never applied.", Grouped(int64(len(r.Unused)-maxNotes))))
			break
		}
		what := u.Rule
		if u.Limit != "" {
			what = fmt.Sprintf("Limit %q of %s", u.Limit, u.Rule)
		}
		all = append(all, fmt.Sprintf("%s never applied: %s.", Shown(what), Shown(u.Why)))
	}
	for i, c := range r.FailedConditions {
		if i == maxNotes {
			all = append(all, fmt.Sprintf("%s more conditions failed.", Grouped(int64(len(r.FailedConditions)-maxNotes))))
			break
		}
		all = append(all, fmt.Sprintf("Condition %q of %s failed for %s writes, such as: %s.",
			c.Condition, Shown(c.Rule), Grouped(c.Count), Shown(c.Example)))
	}
	return all
}

// Slower is what longer write intervals would have saved.
type Slower struct {
	// Times is how many times as long they are.
	Times int `json:"times"`
	// Intervals are those of the rules, in nanoseconds.
	Intervals []time.Duration `json:"intervals"`
	// Before and After are the writes to etcd under the rules, and with the longer intervals.
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// note is s in a sentence; empty if nothing would have been saved.
func (s *Slower) note() string {
	if s == nil || s.After >= s.Before {
		return ""
	}
	change := fmt.Sprintf("write intervals %d times as long", s.Times)
	if len(s.Intervals) == 1 {
		change = fmt.Sprintf("writeInterval %s instead of %s", time.Duration(s.Times)*s.Intervals[0], s.Intervals[0])
	}
	return fmt.Sprintf("With %s: %s writes to etcd.", change, Fewer(s.Before, s.After))
}
