package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/simulate"
)

// Findings are what matters most, in sentences.
func (r *Report) Findings() []string {
	var all []string
	if r.Input.Fewest < r.Input.Most {
		all = append(all, fmt.Sprintf("Stored Events say how often something happened, not how often it was written: from %s to %s writes are possible. Both ends are simulated.",
			Grouped(r.Input.Fewest), Grouped(r.Input.Most)))
	}
	for i := range r.Runs {
		run, under := &r.Runs[i], ""
		if len(r.Runs) > 1 {
			under = "Under " + Shown(run.Name()) + ": "
		}
		w := run.EtcdWrites
		all = append(all, fmt.Sprintf("%s%s writes to etcd instead of %s, %s. %s", under, Grouped(w.After), Grouped(w.Before), Fewer(w.Before, w.After), run.dropped()))
	}
	all = append(all, r.Runs[0].most()...)
	return append(all, r.Runs[0].notes()...)
}

// dropped says what would have been dropped, and by which rule most of it.
func (r *Run) dropped() string {
	n, writes := outcomes(admission.Dropped)(r.Result), r.Result.Writes()
	if n == 0 {
		return "Nothing would have been dropped."
	}
	says := fmt.Sprintf("%s of %s writes would have been dropped", Grouped(n), Grouped(writes))
	if r.WarningsDropped > 0 {
		says += fmt.Sprintf(", %s of them Warnings", Grouped(r.WarningsDropped))
	}
	if i := slices.IndexFunc(r.Rules, func(p simulate.RuleCounts) bool { return !p.Audited && 2*p.Dropped > n }); i >= 0 {
		says += ", most by " + Shown(r.Rules[i].Rule) + " (" + buckets(r.Rules[i].Buckets) + ")"
	}
	return says + "."
}

// most names what a quarter of the writes or more have in common, unless all have it.
func (r *Run) most() []string {
	var parts []string
	for _, common := range []struct {
		by   busiest.By
		what string
	}{
		{busiest.Namespace, "are in namespace"}, {busiest.Source, "are by"}, {busiest.Object, "are about"}, {busiest.Reason, "are"},
	} {
		ranking := r.Busiest[common.by]
		if len(ranking.Rows) < 2 {
			continue
		}
		if first, all := ranking.Rows[0], ranking.Total.Matched(); 4*first.Matched() >= all {
			parts = append(parts, fmt.Sprintf("%s %s %s", Share(first.Matched(), all), common.what, Shown(first.Name)))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{"Of all writes, " + strings.Join(parts, ", ") + "."}
}

// Grouped is n with its thousands apart.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Signed is n with its sign, unless it is 0.
func Signed(n int64) string {
	if n > 0 {
		return "+" + Grouped(n)
	}
	return Grouped(n)
}

// Share is n of all, in percent.
func Share(n, all int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(all, 1)))
}

// Fewer says how many fewer or more there are after than before.
func Fewer(before, after int64) string {
	switch {
	case after > before:
		return Share(after-before, before) + " more"
	case after == before:
		return "as many"
	}
	return Share(before-after, before) + " fewer"
}

// maxShown is how much of a name from outside is shown, in characters.
const maxShown = 200

// Shown is a name from outside, cut.
func Shown(s string) string {
	if runes := []rune(s); len(runes) > maxShown {
		return string(runes[:maxShown]) + "…"
	}
	return s
}
