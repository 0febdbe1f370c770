package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// findings returns the main results as sentences: the limitations of the input, then the result of each run, and then notes about
// the first one.
func (r *Report) findings() []string {
	all := r.limitations()
	if r.Input.Fewest < r.Input.Most {
		all = append(all, fmt.Sprintf("Stored Events show how often something happened, not how often it was written: between %s and %s writes. Both extremes are simulated.",
			output.GroupDigits(r.Input.Fewest), output.GroupDigits(r.Input.Most)))
	}
	for i := range r.Runs {
		run, under := &r.Runs[i], ""
		if len(r.Runs) > 1 {
			under = "Under " + run.name() + ": "
		}
		w := run.EtcdWrites
		all = append(all, fmt.Sprintf("%s%s to etcd instead of %s (%s). %s", under, writesText(w.After), output.GroupDigits(w.Before), changeText(w.Before, w.After), run.droppedText()))
	}
	return append(all, r.Runs[0].notes()...)
}

// limitations returns sentences about what the recording lacks.
func (r *Report) limitations() (all []string) {
	in := &r.Input
	lacking := map[string]int64{}
	maps.Copy(lacking, in.Unknown)
	if n := r.Runs[0].Outcomes[simulate.Unknown]; n > 0 {
		lacking["the recording lacks the Event that is changed"] = n
	}
	var n int64
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(lacking)) {
		n += lacking[reason]
		why = append(why, fmt.Sprintf("%s (%s)", reason, output.GroupDigits(lacking[reason])))
	}
	if n > 0 {
		total := in.Most
		for _, unknown := range in.Unknown {
			total += unknown
		}
		all = append(all, fmt.Sprintf("%s of %s %s unknown and not counted: %s.", output.GroupDigits(n), writesText(total), isOrAre(n), strings.Join(why, ", ")))
	}
	for i := range in.Files {
		if f := &in.Files[i]; f.Part {
			more := "more Events"
			if f.Remaining > 0 {
				more = output.Count(f.Remaining, "more Event", "more Events")
			}
			all = append(all, fmt.Sprintf("%s is one page of a list with %s. kubectl get events -A -o json lists all.", truncateName(f.Name), more))
		}
	}
	if in.TimesShifted > 0 {
		all = append(all, output.Count(in.TimesShifted, "Event has impossible times, because the clock of its node is off. Its creation time is used instead.",
			"Events have impossible times, because the clocks of their nodes are off. Their creation times are used instead."))
	}
	if need := r.Runs[0].UserDependent; len(need) > 0 {
		all = append(all, fmt.Sprintf("The recording does not name users, so all writes count as those of one user. These rules depend on the user: %s.", truncateName(strings.Join(need, ", "))))
	}
	return all
}

// droppedText returns a sentence with the number of dropped writes, and the rule that dropped most of them.
func (r *Run) droppedText() string {
	n := outcomes(admission.Dropped)(r.Result)
	if n == 0 {
		return "Nothing would have been dropped."
	}
	sentence := fmt.Sprintf("%s of %s would have been dropped", output.GroupDigits(n), writesText(r.Writes()))
	if r.WarningsDropped > 0 {
		sentence += ", " + output.Count(r.WarningsDropped, "of them a Warning", "of them Warnings")
	}
	if i := slices.IndexFunc(r.Rules, func(p simulate.RuleCounts) bool { return !p.Audited && 2*p.Dropped > n }); i >= 0 {
		sentence += ", mostly by " + truncateName(r.Rules[i].Rule) + " (" + bucketsText(r.Rules[i].Buckets) + ")"
	}
	return sentence + "."
}

// maxNotes bounds the notes of one kind.
const maxNotes = 10

// notes returns sentences about rules that are not in force, that never applied, or whose match is unknown.
func (r *Run) notes() []string {
	var excluded, unused, unknown []string
	for _, why := range r.Excluded {
		excluded = append(excluded, truncateName(why)+".")
	}
	for _, u := range r.Unused {
		name := u.Rule
		if u.Limit != "" {
			name = fmt.Sprintf("Limit %q of %s", u.Limit, u.Rule)
		}
		unused = append(unused, fmt.Sprintf("%s never applied: %s.", truncateName(name), truncateName(u.Why)))
	}
	for _, m := range r.UnknownMatches {
		unknown = append(unknown, fmt.Sprintf("It is unknown for %s whether %s matches, because of its %s. Example: %s.",
			writesText(m.Count), truncateName(m.Rule), truncateName(m.Field), truncateName(m.Example)))
	}
	return slices.Concat(firstNotes(excluded, "more is not in force", "more are not in force"), firstNotes(unused, "more never applied", "more never applied"),
		firstNotes(unknown, "more unknown match", "more unknown matches"))
}

// firstNotes returns the first maxNotes notes, and a note with the number of further ones.
func firstNotes(notes []string, one, many string) []string {
	if more := len(notes) - maxNotes; more > 0 {
		return append(notes[:maxNotes], output.Count(int64(more), one, many)+".")
	}
	return notes
}

// writesText returns a number of writes with its noun.
func writesText(n int64) string { return output.Count(n, "write", "writes") }

// isOrAre returns the verb for n things.
func isOrAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// signedText returns n with its sign, unless it is 0.
func signedText(n int64) string {
	if n > 0 {
		return "+" + output.GroupDigits(n)
	}
	return output.GroupDigits(n)
}

// percentText returns n as a percentage of all.
func percentText(n, all int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(all, 1)))
}

// changeText returns the change from before to after in percent.
func changeText(before, after int64) string {
	switch {
	case after > before:
		return percentText(after-before, before) + " more"
	case after == before:
		return "no change"
	}
	return percentText(before-after, before) + " fewer"
}

// truncateName cuts a text that may be long, because it comes from the input.
func truncateName(s string) string { return admission.Truncate(s, 300) }
