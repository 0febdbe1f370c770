package main

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
)

// mostRows bounds the stored Events that a table shows of one source.
const mostRows = 30

// print writes the report for a person.
func (e *explanation) print(w io.Writer) {
	fmt.Fprintf(w, "%s %s/%s\n", printable(e.Kind), printable(e.Namespace), printable(e.Name))
	for i := range e.Sources {
		fmt.Fprintln(w)
		e.Sources[i].print(w)
	}
	if len(e.Notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range e.Notes {
		fmt.Fprintln(w, "Note:", printable(n))
	}
}

func (t *explainedSource) print(w io.Writer) {
	who := cmp.Or(t.Component, "a source without a name")
	if t.Host != "" {
		who += " on " + t.Host
	}
	fmt.Fprintf(w, "SOURCE %s", printable(who))
	if t.UID != "" {
		fmt.Fprintf(w, "   (object %s)", printable(t.UID))
	}
	fmt.Fprintf(w, "\n  by store %s at %s\n", printable(t.Store), t.at.UTC().Format(time.RFC3339))
	for _, p := range t.Policies {
		fmt.Fprintf(w, "  %s governs %s: %s", printable(p.Name), printable(strings.Join(p.Reasons, ", ")), printable(p.Why))
		if p.Audited != "" {
			fmt.Fprintf(w, "; %s would, if it were not audited", printable(p.Audited))
		}
		fmt.Fprintln(w)
	}
	t.printEvents(w)
	t.printDropped(w)
	t.printBuckets(w)
	t.printNext(w)
}

// tableOf prints rows of cells under each other, if there are any but the first.
func tableOf(w io.Writer, rows [][]string) {
	if len(rows) < 2 {
		return
	}
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush() // into memory
	fmt.Fprintln(w)
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(w, "  "+strings.TrimRight(line, " \n"))
	}
}

func (t *explainedSource) printEvents(w io.Writer) {
	rows := [][]string{{"EVENT", "TYPE", "REASON", "COUNT", "MERGED", "PENDING", "WRITTEN IN"}}
	for _, e := range t.Events[:min(len(t.Events), mostRows)] {
		row := []string{cmp.Or(e.Name, "(gone)"), cmp.Or(e.Type, "-"), e.Reason, fmt.Sprint(e.Count), "-", "-", "-"}
		if e.Known {
			row[4], row[5], row[6] = fmt.Sprint(e.Merged), fmt.Sprint(e.Pending), t.in(e.Due, e.Writing)
		}
		rows = append(rows, row)
	}
	tableOf(w, rows)
	if more := len(t.Events) - mostRows; more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}

// in is how long it takes until a moment, - for none.
func (t *explainedSource) in(at time.Time, writing bool) string {
	switch {
	case at.IsZero():
		return "-"
	case writing:
		return "now, being written"
	case !at.After(t.at):
		return "now"
	}
	return at.Sub(t.at).Round(100 * time.Millisecond).String()
}

func (t *explainedSource) printDropped(w io.Writer) {
	if len(t.Dropped) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range t.Dropped {
		var by []string
		for _, reason := range slices.SortedFunc(maps.Keys(n.Reasons), func(a, b string) int {
			return cmp.Or(cmp.Compare(n.Reasons[b], n.Reasons[a]), cmp.Compare(a, b))
		}) {
			by = append(by, fmt.Sprintf("%d %s", n.Reasons[reason], cmp.Or(reason, "of other reasons")))
		}
		fmt.Fprintf(w, "  DROPPED %d since %s: %s", n.Count, n.Since.UTC().Format(time.RFC3339), printable(strings.Join(by, ", ")))
		if !n.Due.IsZero() {
			fmt.Fprintf(w, "; %d of them pending, written in %s", n.Pending, t.in(n.Due, false))
		}
		fmt.Fprintln(w)
	}
}

func (t *explainedSource) printBuckets(w io.Writer) {
	rows := [][]string{{"BUCKET", "FOR", "POLICY", "TOKENS", "NEXT TOKEN"}}
	for _, b := range t.Buckets {
		next := "it is full"
		switch {
		case b.Burst <= 0:
			next = "never"
		case !b.Next.IsZero():
			next = fmt.Sprintf("in %s, at %s", t.in(b.Next, false), b.Next.UTC().Format(time.RFC3339))
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
			reserve += " for " + t.in(n.Renewed, false)
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
