package explain

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/cmd/webhook/text"
)

// mostRows bounds the stored Events that a table shows of one source.
const mostRows = 30

// print writes the report for a person, with so many rows of Events of a source at most.
func (e *explanation) print(w io.Writer, rows int) {
	fmt.Fprintf(w, "%s %s/%s\n", text.Visible(e.Kind), text.Visible(e.Namespace), text.Visible(e.Name))
	for i := range e.Sources {
		fmt.Fprintln(w)
		e.Sources[i].print(w, rows)
	}
	printDropped(w, "", e.Dropped, e.Store.At)
	if len(e.Notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range e.Notes {
		fmt.Fprintln(w, "Note:", text.Visible(n))
	}
}

func (t *explainedSource) print(w io.Writer, rows int) {
	who := cmp.Or(t.Component, "a source without a name")
	if t.Host != "" {
		who += " on " + t.Host
	}
	fmt.Fprintf(w, "SOURCE %s", text.Visible(who))
	if t.UID != "" {
		fmt.Fprintf(w, "   (object %s)", text.Visible(t.UID))
	}
	fmt.Fprintf(w, "\n  as written by %s, by store %s at %s\n", text.Visible(t.Writer), text.Visible(t.store), t.at.UTC().Format(time.RFC3339))
	for _, p := range t.Policies {
		fmt.Fprintf(w, "  %s governs %s: %s", text.Visible(p.Name), text.Visible(strings.Join(p.Reasons, ", ")), text.Visible(p.Why))
		if p.Audited != "" {
			fmt.Fprintf(w, "; %s would, if it were not audited", text.Visible(p.Audited))
		}
		fmt.Fprintln(w)
	}
	t.printEvents(w, rows)
	printDropped(w, "  ", t.Dropped, t.at)
	t.printBuckets(w)
	t.printNext(w)
}

// tableOf prints rows of cells under each other, if there are any but the first.
func tableOf(w io.Writer, rows [][]string) {
	if len(rows) < 2 {
		return
	}
	var out strings.Builder
	t := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = text.Visible(row[i])
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush() // into memory
	fmt.Fprintln(w)
	for line := range strings.Lines(out.String()) {
		fmt.Fprintln(w, "  "+strings.TrimRight(line, " \n"))
	}
}

func (t *explainedSource) printEvents(w io.Writer, most int) {
	rows := [][]string{{"EVENT", "TYPE", "REASON", "COUNT", "MERGED", "PENDING", "WRITTEN IN"}}
	for _, e := range t.Events[:min(len(t.Events), most)] {
		row := []string{cmp.Or(e.Name, "(not found)"), cmp.Or(e.Type, "-"), e.Reason, fmt.Sprint(e.Count), "-", "-", "-"}
		if e.Known {
			row[4], row[5], row[6] = fmt.Sprint(e.Merged), fmt.Sprint(e.Pending), until(e.Due, t.at)
		}
		rows = append(rows, row)
	}
	tableOf(w, rows)
	if more := len(t.Events) - most; more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}

// until is how long it takes from now to a moment, - for none.
func until(at, now time.Time) string {
	switch {
	case at.IsZero():
		return "-"
	case !at.After(now):
		return "now"
	}
	return at.Sub(now).Round(100 * time.Millisecond).String()
}

// printDropped prints notices, if there are any.
func printDropped(w io.Writer, indent string, all []explainedNotice, now time.Time) {
	if len(all) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range all {
		fmt.Fprintf(w, "%sDROPPED %d by %s, about %s, since %s: %s; from %s", indent, n.Count, text.Visible(n.by()), text.Visible(n.About),
			n.Since.UTC().Format(time.RFC3339), text.Visible(listed(n.Reasons, "of other reasons")), text.Visible(listed(n.Sources, "other sources")))
		if !n.Due.IsZero() {
			due := "now"
			if n.Due.After(now) {
				due = "in " + until(n.Due, now)
			}
			fmt.Fprintf(w, "; %d of them pending, written %s", n.Pending, due)
		}
		fmt.Fprintln(w)
	}
}

// by says what dropped.
func (n *explainedNotice) by() string {
	switch {
	case n.Policy == "":
		return "a replica"
	case n.Bucket == "":
		return n.Policy
	}
	return "the " + n.Bucket + " of " + n.Policy
}

// listed is counts, the highest first.
func listed(counts map[string]int64, others string) string {
	var parts []string
	for _, what := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	}) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[what], cmp.Or(what, others)))
	}
	return strings.Join(parts, ", ")
}

func (t *explainedSource) printBuckets(w io.Writer) {
	rows := [][]string{{"BUCKET", "FOR", "POLICY", "TOKENS", "NEXT TOKEN"}}
	for _, b := range t.Buckets {
		next := "it is full"
		switch {
		case b.Burst <= 0:
			next = "never"
		case !b.Next.IsZero():
			next = fmt.Sprintf("in %s, at %s", until(b.Next, t.at), b.Next.UTC().Format(time.RFC3339))
		}
		rows = append(rows, []string{b.Bucket, cmp.Or(b.For, "-"), b.Policy, fmt.Sprintf("%d of %d", b.Tokens, b.Burst), next})
	}
	tableOf(w, rows)
}

func (t *explainedSource) printNext(w io.Writer) {
	rows := [][]string{{"ONE MORE EVENT", "RESERVE", "WOULD NOW BE"}}
	for i := range t.Next {
		n := &t.Next[i]
		reserve := "-"
		if n.PerReason > 0 {
			reserve = fmt.Sprintf("%d of %d", n.Reserve, n.PerReason)
		}
		if !n.Renewed.IsZero() && n.Reserve < n.PerReason {
			reserve += " for " + until(n.Renewed, t.at)
		}
		what := strings.TrimSpace(n.Type + " " + n.Reason)
		if n.Same != nil {
			rows = append(rows, []string{what + ", the same again", reserve, n.Same.String()})
		}
		rows = append(rows, []string{what + ", with a new message", reserve, n.Other.String()})
	}
	tableOf(w, rows)
}

// String is the outcome as a sentence has it.
func (o *explainedOutcome) String() string {
	switch admission.Outcome(o.Outcome) {
	case admission.Admitted:
		return "admitted"
	case admission.Aggregated:
		return "admitted, as the combined Event of similar ones"
	case admission.Merged:
		return o.Because // which says merged into what
	case admission.Dropped:
		return "dropped: " + o.Because
	default:
		return o.Outcome
	}
}
