package report

import (
	"fmt"
	"time"
)

// maxNotes is how many notes of a kind are shown.
const maxNotes = 10

// notes say what of the rules had no effect or failed.
func (r *Run) notes() []string {
	var unused, failed []string
	for _, u := range r.Unused {
		what := u.Rule
		if u.Limit != "" {
			what = fmt.Sprintf("Limit %q of %s", u.Limit, u.Rule)
		}
		unused = append(unused, fmt.Sprintf("%s never applied: %s.", Shown(what), Shown(u.Why)))
	}
	for _, c := range r.FailedConditions {
		failed = append(failed, fmt.Sprintf("Condition %q of %s failed for %s writes, such as: %s.",
			c.Condition, Shown(c.Rule), Grouped(c.Count), Shown(c.Example)))
	}
	return append(first(unused, "never applied"), first(failed, "conditions failed")...)
}

// first are the first of some notes, and how many more there are.
func first(notes []string, what string) []string {
	if more := len(notes) - maxNotes; more > 0 {
		return append(notes[:maxNotes], fmt.Sprintf("%s more %s.", Grouped(int64(more)), what))
	}
	return notes
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
