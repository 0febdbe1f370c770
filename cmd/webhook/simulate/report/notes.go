package report

import "fmt"

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
