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
	all := r.missing()
	if r.Input.Fewest < r.Input.Most {
		all = append(all, fmt.Sprintf("Stored Events say how often something happened, not how often it was written: from %s to %s writes are possible. Both ends are simulated.",
			output.Grouped(r.Input.Fewest), output.Grouped(r.Input.Most)))
	}
	for i := range r.Runs {
		run, under := &r.Runs[i], ""
		if len(r.Runs) > 1 {
			under = "Under " + run.name() + ": "
		}
		w := run.EtcdWrites
		all = append(all, fmt.Sprintf("%s%s to etcd instead of %s, %s. %s", under, writes(w.After), output.Grouped(w.Before), fewer(w.Before, w.After), run.dropped()))
	}
	return append(all, r.Runs[0].notes()...)
}

// missing says what the recording lacks.
func (r *Report) missing() (all []string) {
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
		why = append(why, fmt.Sprintf("%s as %s", output.Grouped(lacking[one]), one))
	}
	if n > 0 {
		total := in.Most
		for _, unknown := range in.Unknown {
			total += unknown
		}
		all = append(all, fmt.Sprintf("Of %s, %s and in no number: %s.", writes(total), output.Counted(n, "is unknown", "are unknown"), strings.Join(why, ", ")))
	}
	for i := range in.Files {
		if f := &in.Files[i]; f.Part {
			more := "more Events"
			if f.Remaining > 0 {
				more = output.Counted(f.Remaining, "more Event", "more Events")
			}
			all = append(all, fmt.Sprintf("%s is a part of a list that has %s. kubectl get events -A -o json gets them all.", clipped(f.Name), more))
		}
	}
	if in.Shifted > 0 {
		all = append(all, output.Counted(in.Shifted, "Event has times that cannot be right, as the clock of its node is off: the time of its creation is taken.",
			"Events have times that cannot be right, as the clocks of their nodes are off: the times of their creation are taken."))
	}
	if need := r.Runs[0].NeedUsers; len(need) > 0 {
		all = append(all, fmt.Sprintf("Who wrote the Events is not in the recording, so all writes are of one user. These ask for users: %s.", clipped(strings.Join(need, ", "))))
	}
	return all
}

// dropped says what would have been dropped, and by which rule most of it.
func (r *Run) dropped() string {
	n := outcomes(admission.Dropped)(r.Result)
	if n == 0 {
		return "Nothing would have been dropped."
	}
	says := fmt.Sprintf("%s of %s would have been dropped", output.Grouped(n), writes(r.Writes()))
	if r.WarningsDropped > 0 {
		says += ", " + output.Counted(r.WarningsDropped, "of them a Warning", "of them Warnings")
	}
	if i := slices.IndexFunc(r.Rules, func(p simulate.RuleCounts) bool { return !p.Audited && 2*p.Dropped > n }); i >= 0 {
		says += ", most by " + clipped(r.Rules[i].Rule) + " (" + buckets(r.Rules[i].Buckets) + ")"
	}
	return says + "."
}

// maxNotes is how many notes of a kind are shown.
const maxNotes = 10

// notes say what of the rules was left out, had no effect or is unknown.
func (r *Run) notes() []string {
	var leftOut, unused, unknown []string
	for _, why := range r.LeftOut {
		leftOut = append(leftOut, clipped(why)+".")
	}
	for _, u := range r.Unused {
		what := u.Rule
		if u.Limit != "" {
			what = fmt.Sprintf("Limit %q of %s", u.Limit, u.Rule)
		}
		unused = append(unused, fmt.Sprintf("%s never applied: %s.", clipped(what), clipped(u.Why)))
	}
	for _, m := range r.UnknownMatches {
		unknown = append(unknown, fmt.Sprintf("Whether %s matches is unknown for %s by its %s, such as: %s.",
			clipped(m.Rule), writes(m.Count), clipped(m.Field), clipped(m.Example)))
	}
	return slices.Concat(first(leftOut, "more is left out", "more are left out"), first(unused, "more never applied", "more never applied"),
		first(unknown, "more match is unknown", "more matches are unknown"))
}

// first are the first of some notes, and how many more there are.
func first(notes []string, one, many string) []string {
	if more := len(notes) - maxNotes; more > 0 {
		return append(notes[:maxNotes], output.Counted(int64(more), one, many)+".")
	}
	return notes
}

// writes are n writes.
func writes(n int64) string { return output.Counted(n, "write", "writes") }

// signed is n with its sign, unless it is 0.
func signed(n int64) string {
	if n > 0 {
		return "+" + output.Grouped(n)
	}
	return output.Grouped(n)
}

// share is n of all, in percent.
func share(n, all int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(all, 1)))
}

// fewer says how many fewer or more there are after than before.
func fewer(before, after int64) string {
	switch {
	case after > before:
		return share(after-before, before) + " more"
	case after == before:
		return "as many"
	}
	return share(before-after, before) + " fewer"
}

// clipped is a name from outside, cut.
func clipped(s string) string { return admission.Truncate(s, 300) }
