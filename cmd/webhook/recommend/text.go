package recommend

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/admission/simulate/recommend"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// maxStorms is how many storms are shown.
const maxStorms = 10

// writeText writes r for a terminal.
func (r *recommendation) writeText(w io.Writer) error {
	out := output.NewRows(w)
	for _, line := range r.findings() {
		out.Add(line)
	}
	out.Add("With -o yaml, the quotas are printed for kubectl apply -f -, with what each number is based on.")
	out.Add()
	out.Add("Each row is a limit: its size, how many of its buckets had usual Events, how many these had in their")
	out.Add("busiest minute, and the burst that was enough for the busiest.")
	for _, q := range r.Quotas {
		out.Add()
		out.Add(strings.ToUpper(q.For()), "burst", "refill", "buckets", "median", "p99", "peak", "needed", "busiest")
		for _, l := range q.Limits {
			s := &l.Seen
			out.Add(l.Name, output.GroupDigits(int64(l.Burst)), l.Refill(), output.GroupDigits(int64(s.Buckets)), output.GroupDigits(s.Median), output.GroupDigits(s.P99), output.GroupDigits(s.Peak), output.GroupDigits(s.Needed), truncateName(s.Busiest))
		}
	}
	for _, ranking := range r.Seen {
		out.Add()
		out.Add("USUAL EVENTS BY "+strings.ToUpper(ranking.By), "events", "median a minute", "p99", "peak")
		for _, row := range ranking.Rows {
			out.Add(truncateName(row.Name), output.GroupDigits(row.Events), output.GroupDigits(row.Median), output.GroupDigits(row.P99), output.GroupDigits(row.Peak))
		}
	}
	out.Add()
	out.Add("WHAT THIS CANNOT SHOW")
	for _, one := range r.Unknown {
		out.Add("- " + one)
	}
	out.Add()
	out.Add("SIMULATED ON THE SAME EVENTS")
	if err := out.Flush(); err != nil {
		return err
	}
	return r.Simulation.WriteSummary(w)
}

// findings are what matters most, in sentences.
func (r *recommendation) findings() []string {
	seen := fmt.Sprintf("In %s, %s a token of quotas.", minutesText(r.Minutes), output.Count(r.Events, "write takes", "writes take"))
	if r.Usual == r.Events {
		seen += " There is no storm."
	} else {
		seen += fmt.Sprintf(" %s usual, %s to a storm.", output.Count(r.Usual, "is", "are"), output.Count(r.Events-r.Usual, "belongs", "belong"))
	}
	all := []string{seen}
	for i, s := range r.Storms {
		if i == maxStorms {
			all = append(all, output.Count(int64(len(r.Storms)-i), "smaller storm is not shown.", "smaller storms are not shown."))
			break
		}
		all = append(all, describeStorm(s))
	}
	refused := "These quotas refuse none of the usual Events."
	if n := len(r.UsualRefused); n > 0 {
		refused = "Usual Events are refused too, as they share a bucket with a storm or meet another quota:" + countsText(r.UsualRefused) + "."
	}
	return append(all, refused)
}

func countsText(by map[string]int64) (says string) {
	for _, limit := range slices.Sorted(maps.Keys(by)) {
		says += fmt.Sprintf(" %s by %s,", output.GroupDigits(by[limit]), limit)
	}
	return strings.TrimSuffix(says, ",")
}

// describeStorm says what a storm is.
func describeStorm(s recommend.Storm) string {
	of := fmt.Sprintf("of controller %s in namespace %s", truncateName(s.Controller), truncateName(s.Namespace))
	if s.Everything {
		of = "of the whole cluster, most by controller " + truncateName(s.Controller)
	}
	return fmt.Sprintf("A storm %s: %s between %s and %s, up to %s a minute, where more than %s are one. No limit is sized for it.",
		of, output.Count(s.Events, strings.TrimSpace(s.Type+" Event"), strings.TrimSpace(s.Type+" Events")), s.First.Format(time.RFC3339), s.Last.Format(time.RFC3339), output.GroupDigits(s.Peak), output.GroupDigits(s.Above))
}

// truncateName is a name from outside, cut.
func truncateName(s string) string {
	const most = 100
	return admission.Truncate(s, most)
}

func minutesText(n int64) string {
	if n == 1 {
		return "a minute"
	}
	if n >= 120 {
		return output.GroupDigits(n/60) + " hours"
	}
	return fmt.Sprintf("%d minutes", n)
}

// writeYAML writes the quotas as YAML that can be applied.
func (r *recommendation) writeYAML(w io.Writer) error {
	for _, line := range r.findings() {
		if _, err := fmt.Fprintln(w, "# "+text.Sanitize(line)); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(w, "# What this cannot show:"); err != nil {
		return err
	}
	for _, one := range r.Unknown {
		if _, err := fmt.Fprintln(w, "# - "+text.Sanitize(one)); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, r.yaml)
	return err
}

// minutesPerDay is the least that has what happens each day.
const minutesPerDay = 24 * 60

// limitations says what a recording cannot show.
func limitations(in *simulate.Input, p *recommend.Proposal) (all []string) {
	add := func(format string, of ...any) { all = append(all, fmt.Sprintf(format, of...)) }
	if p.Minutes < minutesPerDay {
		add("It lasts %s. What happens less often is not in it, such as nightly jobs, releases and upgrades of nodes.", minutesText(p.Minutes))
	}
	if in.Fewest < in.Most {
		add("Stored Events say how often something happened, not how often it was written, or when between the first and the last time. The quotas are sized for the most writes, evenly spread.")
		add("Events that have expired, and what recorders have kept back, are not in it. A watch or an audit log has them.")
	}
	for why, n := range in.Skipped {
		if strings.Contains(why, "notices") {
			add("It has %s of eventquota: the Events that were dropped then are not in it.", output.Count(n, "notice", "notices"))
		}
	}
	var unknown int64
	for _, n := range in.Unknown {
		unknown += n
	}
	if unknown > 0 {
		add("%s no content in it, and no limit is sized for them.", output.Count(unknown, "write has", "writes have"))
	}
	if !in.Users {
		add("Who wrote the Events is not in it, so policies that ask for users did not match.")
	}
	if p.Nodes == 0 {
		add("No kubelet says in it on which node it runs. So it is unknown how many nodes there are, and how many Events would be many for them.")
	}
	if len(p.Storms) > 0 {
		add("Whether a storm should be admitted. With --expected NAMESPACE/CONTROLLER, or /CONTROLLER, the quotas are sized for it too.")
	} else {
		add("Whether all of it should be admitted. A storm that lasts as long as the recording can look usual.")
	}
	return all
}
