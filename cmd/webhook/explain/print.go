package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/store"
)

// maxRows bounds the stored Events of one source in a table.
const maxRows = 30

// write writes the report in a format.
func (r *report) write(w io.Writer, format string) error {
	if done, err := output.Write(w, format, r); done {
		return err
	}
	p := printer{output.NewRows(w), r.Store.At}
	if format == output.Name {
		for _, s := range r.Sources {
			for _, e := range s.Events {
				if e.Name != "" {
					p.Add("event/" + e.Name)
				}
			}
		}
		return p.Flush()
	}
	p.Add(fmt.Sprintf("%s %s/%s, by store %s at %s", r.Kind, r.Namespace, r.Name, r.Store.Name, r.Store.At.UTC().Format(time.RFC3339)))
	for _, s := range r.Sources {
		p.source(s)
		shown := len(s.Events)
		if format != output.Wide {
			shown = min(shown, maxRows)
		}
		p.events(s.Events[:shown])
		if more := len(s.Events) - shown; more > 0 {
			p.Add(fmt.Sprintf("  and %d more", more))
		}
		p.buckets(s.Buckets)
	}
	if len(r.Dropped) > 0 {
		p.dropped(r.Dropped)
	}
	for _, n := range r.Notes {
		p.Add()
		p.Add("Note: " + n)
	}
	return p.Flush()
}

// printer prints a report as text.
type printer struct {
	output.Rows

	now time.Time
}

func (p *printer) source(s *source) {
	who := s.name()
	if s.Host != "" {
		who += " on " + s.Host
	}
	if s.UID != "" {
		who += " (object " + s.UID + ")"
	}
	p.Add()
	p.Add("SOURCE " + who + " as written by " + s.Writer)
	for _, g := range s.Policies {
		p.Add(fmt.Sprintf("  %s governs %s: %s", g.Name, strings.Join(g.Reasons, ", "), g.Why))
	}
}

func (p *printer) events(all []event) {
	p.Add()
	p.Add("  EVENT", "TYPE", "REASON", "COUNT", "MERGED", "PENDING", "WRITTEN IN")
	for _, e := range all {
		var merged, pending any = "-", "-"
		if e.InStore {
			merged, pending = e.Merged, e.Pending
		}
		p.Add("  "+cmp.Or(e.Name, "(not found)"), cmp.Or(e.Type, "-"), e.Reason, e.Count, merged, pending, p.untilText(e.Due))
	}
}

// untilText formats the time left until a moment, - for none.
func (p *printer) untilText(at time.Time) string {
	switch {
	case at.IsZero():
		return "-"
	case !at.After(p.now):
		return "now"
	}
	return at.Sub(p.now).Round(100 * time.Millisecond).String()
}

func (p *printer) dropped(all []notice) {
	p.Add()
	titles := []any{"DROPPED", "BY", "OF", "ABOUT", "SINCE", "PENDING", "WRITTEN IN", "REASONS", "SOURCES"}
	workloads := slices.ContainsFunc(all, func(n notice) bool { return len(n.Workloads) > 0 })
	if workloads {
		titles = append(titles, "WORKLOADS")
	}
	p.Add(titles...)
	for _, n := range all {
		cells := []any{
			n.Count, cmp.Or(n.Bucket, "-"), cmp.Or(n.Policy, "a replica"), n.About, n.Since.Format(time.RFC3339),
			n.Pending, p.untilText(n.Due), joinCounts(n.Reasons), joinCounts(n.Sources),
		}
		if workloads {
			cells = append(cells, cmp.Or(joinCounts(n.Workloads), "-"))
		}
		p.Add(cells...)
	}
}

// joinCounts formats counts in one line.
func joinCounts(counts []store.Tally) string {
	parts := make([]string, len(counts))
	for i, c := range counts {
		parts[i] = fmt.Sprintf("%d %s", c.Count, cmp.Or(c.Name, "others"))
	}
	return strings.Join(parts, ", ")
}

func (p *printer) buckets(all []bucket) {
	if len(all) == 0 {
		return
	}
	p.Add()
	p.Add("  LIMIT", "OF", "FOR", "TOKENS", "NEXT TOKEN IN")
	for _, b := range all {
		tokens := fmt.Sprintf("%d of %d", b.Tokens, b.Burst)
		if b.Reserve > 0 {
			tokens += fmt.Sprintf(", %d for Warnings", b.Reserve)
		}
		p.Add("  "+b.Bucket, b.Policy, cmp.Or(b.For, "-"), tokens, p.untilText(b.Next))
	}
}
