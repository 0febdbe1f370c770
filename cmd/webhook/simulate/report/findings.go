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

// findings are what matters most, in sentences.
func (r *Report) findings() []string {
	all := r.limitations()
	if r.Input.Fewest < r.Input.Most {
		all = append(all, fmt.Sprintf("Stored Events say how often something happened, not how often it was written: from %s to %s writes are possible. Both ends are simulated.",
			output.GroupDigits(r.Input.Fewest), output.GroupDigits(r.Input.Most)))
	}
	for i := range r.Runs {
		run, under := &r.Runs[i], ""
		if len(r.Runs) > 1 {
			under = "Under " + run.name() + ": "
		}
		w := run.EtcdWrites
		all = append(all, fmt.Sprintf("%s%s to etcd instead of %s, %s. %s", under, writesText(w.After), output.GroupDigits(w.Before), changeText(w.Before, w.After), run.droppedText()))
	}
	return append(all, r.Runs[0].notes()...)
}

// limitations says what the recording lacks.
func (r *Report) limitations() (all []string) {
	in := &r.Input
	lacking := map[string]int64{}
	maps.Copy(lacking, in.Unknown)
	if n := r.Runs[0].Outcomes[simulate.Unknown]; n > 0 {
		lacking["they change Events that the recording does not have"] = n
	}
	var n int64
	var why []string
	for _, one := range slices.Sorted(maps.Keys(lacking)) {
		n += lacking[one]
		why = append(why, fmt.Sprintf("%s as %s", output.GroupDigits(lacking[one]), one))
	}
	if n > 0 {
		total := in.Most
		for _, unknown := range in.Unknown {
			total += unknown
		}
		all = append(all, fmt.Sprintf("Of %s, %s and in no number: %s.", writesText(total), output.Count(n, "is unknown", "are unknown"), strings.Join(why, ", ")))
	}
	for i := range in.Files {
		if f := &in.Files[i]; f.Part {
			more := "more Events"
			if f.Remaining > 0 {
				more = output.Count(f.Remaining, "more Event", "more Events")
			}
			all = append(all, fmt.Sprintf("%s is a part of a list that has %s. kubectl get events -A -o json gets them all.", truncateName(f.Name), more))
		}
	}
	if in.Shifted > 0 {
		all = append(all, output.Count(in.Shifted, "Event has times that cannot be right, as the clock of its node is off: the time of its creation is taken.",
			"Events have times that cannot be right, as the clocks of their nodes are off: the times of their creation are taken."))
	}
	if need := r.Runs[0].UserDependent; len(need) > 0 {
		all = append(all, fmt.Sprintf("Who wrote the Events is not in the recording, so all writes are of one user. These ask for users: %s.", truncateName(strings.Join(need, ", "))))
	}
	return all
}

// droppedText says what would have been dropped, and by which rule most of it.
func (r *Run) droppedText() string {
	n := outcomes(admission.Dropped)(r.Result)
	if n == 0 {
		return "Nothing would have been dropped."
	}
	says := fmt.Sprintf("%s of %s would have been dropped", output.GroupDigits(n), writesText(r.Writes()))
	if r.WarningsDropped > 0 {
		says += ", " + output.Count(r.WarningsDropped, "of them a Warning", "of them Warnings")
	}
	if i := slices.IndexFunc(r.Rules, func(p simulate.RuleCounts) bool { return !p.Audited && 2*p.Dropped > n }); i >= 0 {
		says += ", most by " + truncateName(r.Rules[i].Rule) + " (" + bucketsText(r.Rules[i].Buckets) + ")"
	}
	return says + "."
}

// maxNotes is how many notes of a kind are shown.
const maxNotes = 10

// notes say what of the rules was left out, had no effect or is unknown.
func (r *Run) notes() []string {
	var leftOut, unused, unknown []string
	for _, why := range r.Excluded {
		leftOut = append(leftOut, truncateName(why)+".")
	}
	for _, u := range r.Unused {
		what := u.Rule
		if u.Limit != "" {
			what = fmt.Sprintf("Limit %q of %s", u.Limit, u.Rule)
		}
		unused = append(unused, fmt.Sprintf("%s never applied: %s.", truncateName(what), truncateName(u.Why)))
	}
	for _, m := range r.UnknownMatches {
		unknown = append(unknown, fmt.Sprintf("Whether %s matches is unknown for %s by its %s, such as: %s.",
			truncateName(m.Rule), writesText(m.Count), truncateName(m.Field), truncateName(m.Example)))
	}
	return slices.Concat(firstNotes(leftOut, "more is left out", "more are left out"), firstNotes(unused, "more never applied", "more never applied"),
		firstNotes(unknown, "more match is unknown", "more matches are unknown"))
}

// firstNotes are the first of some notes, and how many more there are.
func firstNotes(notes []string, one, many string) []string {
	if more := len(notes) - maxNotes; more > 0 {
		return append(notes[:maxNotes], output.Count(int64(more), one, many)+".")
	}
	return notes
}

// writesText are n writes.
func writesText(n int64) string { return output.Count(n, "write", "writes") }

// signedText is n with its sign, unless it is 0.
func signedText(n int64) string {
	if n > 0 {
		return "+" + output.GroupDigits(n)
	}
	return output.GroupDigits(n)
}

// percentText is n of all, in percent.
func percentText(n, all int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(all, 1)))
}

// changeText says how many fewer or more there are after than before.
func changeText(before, after int64) string {
	switch {
	case after > before:
		return percentText(after-before, before) + " more"
	case after == before:
		return "as many"
	}
	return percentText(before-after, before) + " fewer"
}

// truncateName is a name from outside, cut.
func truncateName(s string) string { return admission.Truncate(s, 300) }
