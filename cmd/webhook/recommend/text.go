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

// maxStorms bounds the storms that are shown.
const maxStorms = 10

// writeText writes r as text.
func (r *recommendation) writeText(w io.Writer) error {
	out := output.NewRows(w)
	for _, line := range r.findings() {
		out.Add(line)
	}
	out.Add("-o yaml prints the quotas for kubectl apply -f -, with the basis of each number in comments.")
	out.Add()
	out.Add("Each row is a limit and its size. It shows how many of its buckets had usual Events, the number of Events")
	out.Add("in the busiest minute of these buckets, and the smallest burst that was enough for the busiest bucket.")
	for _, q := range r.Quotas {
		out.Add()
		out.Add(strings.ToUpper(q.For()), "burst", "refill", "buckets", "median", "p99", "peak", "needed", "busiest")
		for _, l := range q.Limits {
			s := &l.Observed
			out.Add(l.Name, output.GroupDigits(int64(l.Burst)), l.Refill(), output.GroupDigits(int64(s.Buckets)), output.GroupDigits(s.Median), output.GroupDigits(s.P99), output.GroupDigits(s.Peak), output.GroupDigits(s.Needed), truncateName(s.Busiest))
		}
	}
	for _, ranking := range r.Observed {
		out.Add()
		out.Add("USUAL EVENTS BY "+strings.ToUpper(ranking.By), "total", "median/min", "p99/min", "peak/min")
		for _, row := range ranking.Rows {
			out.Add(truncateName(row.Name), output.GroupDigits(row.Events), output.GroupDigits(row.Median), output.GroupDigits(row.P99), output.GroupDigits(row.Peak))
		}
	}
	out.Add()
	out.Add("LIMITATIONS")
	for _, limitation := range r.Unknown {
		out.Add("- " + limitation)
	}
	out.Add()
	out.Add("SIMULATION ON THE SAME EVENTS")
	if err := out.Flush(); err != nil {
		return err
	}
	return r.Simulation.WriteSummary(w)
}

// findings returns the main results as sentences.
func (r *recommendation) findings() []string {
	total := fmt.Sprintf("In %s, %s from quotas.", minutesText(r.Minutes), output.Count(r.Events, "write takes a token", "writes take tokens"))
	if r.Usual == r.Events {
		total += " There is no storm."
	} else {
		total += fmt.Sprintf(" %s usual, and %s to storms.", output.Count(r.Usual, "is", "are"), output.Count(r.Events-r.Usual, "belongs", "belong"))
	}
	all := []string{total}
	for i, s := range r.Storms {
		if i == maxStorms {
			all = append(all, output.Count(int64(len(r.Storms)-i), "smaller storm is not shown.", "smaller storms are not shown."))
			break
		}
		all = append(all, describeStorm(s))
	}
	refused := "These quotas refuse no usual Events."
	if n := len(r.UsualRefused); n > 0 {
		refused = "Some usual Events are refused, because they share a bucket with a storm or an existing quota limits them: " + countsText(r.UsualRefused) + "."
	}
	return append(all, refused)
}

func countsText(refused map[string]int64) string {
	var counts []string
	for _, limit := range slices.Sorted(maps.Keys(refused)) {
		counts = append(counts, fmt.Sprintf("%s by limit %s", output.GroupDigits(refused[limit]), limit))
	}
	return strings.Join(counts, ", ")
}

// describeStorm returns sentences about the writer, size and time of a storm.
func describeStorm(s recommend.Storm) string {
	writer := fmt.Sprintf("of controller %s in namespace %s", truncateName(s.Controller), truncateName(s.Namespace))
	if s.Everything {
		writer = "in the whole cluster, mostly by controller " + truncateName(s.Controller)
	}
	return fmt.Sprintf("Storm %s: %s between %s and %s, up to %s a minute (storms have more than %s). No limit is sized for it.",
		writer, output.Count(s.Events, strings.TrimSpace(s.Type+" Event"), strings.TrimSpace(s.Type+" Events")), s.First.Format(time.RFC3339), s.Last.Format(time.RFC3339), output.GroupDigits(s.Peak), output.GroupDigits(s.Above))
}

// truncateName cuts a name that may be long, because it comes from the input.
func truncateName(s string) string {
	const maxBytes = 100
	return admission.Truncate(s, maxBytes)
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

// writeYAML writes the quotas as YAML for kubectl apply, with the findings and limitations in comments.
func (r *recommendation) writeYAML(w io.Writer) error {
	for _, line := range r.findings() {
		if _, err := fmt.Fprintln(w, "# "+text.Sanitize(line)); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(w, "# Limitations:"); err != nil {
		return err
	}
	for _, limitation := range r.Unknown {
		if _, err := fmt.Fprintln(w, "# - "+text.Sanitize(limitation)); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, r.yaml)
	return err
}

// minutesPerDay is the length of a recording that has all daily Events.
const minutesPerDay = 24 * 60

// limitations returns sentences about what a recording cannot show.
func limitations(in *simulate.Input, p *recommend.Proposal) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if p.Minutes < minutesPerDay {
		add("The recording lasts %s. It may lack rarer Events, such as those of nightly jobs, releases and node upgrades.", minutesText(p.Minutes))
	}
	if in.Fewest < in.Most {
		add("Stored Events show how often something happened, but not how often it was written, nor when between the first and the last time. The quotas are sized for the most writes, evenly spread.")
		add("It lacks expired Events, and updates that recorders have not written. A watch or an audit log records Events before they expire.")
	}
	for why, n := range in.Skipped {
		if strings.Contains(why, "notices") {
			add("It has %s of eventquota, so it lacks the Events that eventquota dropped then.", output.Count(n, "notice", "notices"))
		}
	}
	var unknown int64
	for _, n := range in.Unknown {
		unknown += n
	}
	if unknown > 0 {
		add("%s no content in the recording, so no limit is sized for them.", output.Count(unknown, "write has", "writes have"))
	}
	if !in.Users {
		add("It does not name users, so policies with conditions on users did not match.")
	}
	if p.Nodes == 0 {
		add("No kubelet's Events name its node. So the number of nodes is unknown, and so is the usual number of Events for it.")
	}
	if len(p.Storms) > 0 {
		add("It does not show whether a storm should be admitted. --expected NAMESPACE/CONTROLLER or /CONTROLLER sizes the quotas for it too.")
	} else {
		add("A storm that lasts as long as the recording can look usual.")
	}
	return all
}
