package explain

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// mostRows bounds the stored Events that a table shows of one source.
const mostRows = 30

// write writes the report in a format.
func (r *report) write(w io.Writer, format string) error {
	if done, err := output.Write(w, format, r, "  "); done {
		return err
	}
	if format == output.Name {
		for _, s := range r.Sources {
			for _, e := range s.Events {
				if e.Name != "" {
					fmt.Fprintln(w, "event/"+e.Name)
				}
			}
		}
		return nil
	}
	rows := mostRows
	if format == output.Wide {
		rows = math.MaxInt
	}
	p := printer{tabwriter.NewWriter(w, 0, 0, 3, ' ', 0), r.Store.At}
	p.line("%s %s/%s", r.Kind, r.Namespace, r.Name)
	for _, s := range r.Sources {
		p.source(s, r.Store.Name)
		p.events(s.Events, rows)
		p.dropped("  ", s.Dropped)
		p.buckets(s.Buckets)
		p.next(s.Next)
	}
	p.dropped("", r.Dropped)
	if len(r.Notes) > 0 {
		p.line("")
	}
	for _, n := range r.Notes {
		p.line("Note: %s", n)
	}
	return p.table.Flush()
}

// printer prints a report for people. Cells of lines that follow each other are aligned.
type printer struct {
	table *tabwriter.Writer
	now   time.Time
}

// line prints a line. All verbs of format are %s, and nothing that they stand for changes what a terminal shows, or
// begins another cell.
func (p *printer) line(format string, args ...any) {
	for i, arg := range args {
		args[i] = text.Visible(fmt.Sprint(arg))
	}
	fmt.Fprintf(p.table, format+"\n", args...)
}

func (p *printer) source(s *source, store string) {
	who := cmp.Or(s.Component, "a source without a name")
	if s.Host != "" {
		who += " on " + s.Host
	}
	if s.UID != "" {
		who += "   (object " + s.UID + ")"
	}
	p.line("\nSOURCE %s", who)
	p.line("  as written by %s, by store %s at %s", s.Writer, store, p.now.UTC().Format(time.RFC3339))
	for _, g := range s.Policies {
		audited := ""
		if g.Audited != "" {
			audited = "; " + g.Audited + " would, if it were not audited"
		}
		p.line("  %s governs %s: %s%s", g.Name, strings.Join(g.Reasons, ", "), g.Why, audited)
	}
}

func (p *printer) events(all []event, most int) {
	if len(all) > 0 {
		p.line("\n  EVENT\tTYPE\tREASON\tCOUNT\tMERGED\tPENDING\tWRITTEN IN")
	}
	for _, e := range all[:min(len(all), most)] {
		merged, pending, due := "-", "-", "-"
		if e.Known {
			merged, pending, due = fmt.Sprint(e.Merged), fmt.Sprint(e.Pending), p.until(e.Due)
		}
		p.line("  %s\t%s\t%s\t%s\t%s\t%s\t%s", cmp.Or(e.Name, "(not found)"), cmp.Or(e.Type, "-"), e.Reason, e.Count, merged, pending, due)
	}
	if more := len(all) - most; more > 0 {
		p.line("  and %s more", more)
	}
}

// until is how long it takes to a moment, - for none.
func (p *printer) until(at time.Time) string {
	switch {
	case at.IsZero():
		return "-"
	case !at.After(p.now):
		return "now"
	}
	return at.Sub(p.now).Round(100 * time.Millisecond).String()
}

func (p *printer) dropped(indent string, all []notice) {
	if len(all) > 0 {
		p.line("")
	}
	for _, n := range all {
		pending := ""
		if !n.Due.IsZero() {
			pending = fmt.Sprintf("; %d of them pending, written now", n.Pending)
			if n.Due.After(p.now) {
				pending = fmt.Sprintf("; %d of them pending, written in %s", n.Pending, p.until(n.Due))
			}
		}
		p.line(indent+"DROPPED %s by %s, about %s, since %s: %s; from %s%s", n.Count, n.by(), n.About,
			n.Since.UTC().Format(time.RFC3339), listed(n.Reasons, "of other reasons"), listed(n.Sources, "other sources"), pending)
	}
}

// by says what dropped.
func (n *notice) by() string {
	switch {
	case n.Policy == "":
		return "a replica"
	case n.Bucket == "":
		return n.Policy
	}
	return fmt.Sprintf("%s of %s", n.Bucket, n.Policy)
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

func (p *printer) buckets(all []bucket) {
	if len(all) > 0 {
		p.line("\n  LIMIT\tOF\tFOR\tTOKENS\tNEXT TOKEN")
	}
	for _, b := range all {
		next := "it is full"
		switch {
		case b.Burst <= 0:
			next = "never"
		case !b.Next.IsZero():
			next = fmt.Sprintf("in %s, at %s", p.until(b.Next), b.Next.UTC().Format(time.RFC3339))
		}
		tokens := fmt.Sprintf("%d of %d", b.Tokens, b.Burst)
		if b.Reserve > 0 {
			tokens += fmt.Sprintf(", %d for Warnings", b.Reserve)
		}
		p.line("  %s\t%s\t%s\t%s\t%s", b.Bucket, b.Policy, cmp.Or(b.For, "-"), tokens, next)
	}
}

func (p *printer) next(all []*next) {
	if len(all) > 0 {
		p.line("\n  ONE MORE EVENT\tRESERVE\tWOULD NOW BE")
	}
	for _, n := range all {
		reserve := "-"
		if n.PerReason > 0 {
			reserve = fmt.Sprintf("%d of %d", n.Reserve, n.PerReason)
		}
		if !n.Renewed.IsZero() && n.Reserve < n.PerReason {
			reserve += " for " + p.until(n.Renewed)
		}
		what := strings.TrimSpace(n.Type + " " + n.Reason)
		if n.Same != nil {
			p.line("  %s, the same again\t%s\t%s", what, reserve, n.Same)
		}
		p.line("  %s, with a new message\t%s\t%s", what, reserve, n.Other)
	}
}

// String is the outcome as a sentence has it.
func (o *outcome) String() string {
	switch o.Outcome {
	case admission.Admitted:
		return "admitted"
	case admission.Aggregated:
		return "admitted, as the combined Event of similar ones"
	case admission.Merged:
		return o.Because // which says merged into what
	case admission.Dropped:
		return "dropped: " + o.Because
	default:
		return string(o.Outcome)
	}
}
