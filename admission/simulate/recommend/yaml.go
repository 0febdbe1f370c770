package recommend

import (
	_ "embed" // for the template
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/text"
)

//go:embed quotas.yaml.tmpl
var quotasYAML string

// WriteYAML writes the quotas as YAML that can be applied. Comments say what each number is based on.
func (p *Proposal) WriteYAML(w io.Writer) error {
	t, err := template.New("").Funcs(template.FuncMap{"quoted": quoteYAML, "join": func(s []string) string { return strings.Join(s, ", ") }}).Parse(quotasYAML)
	if err != nil {
		return fmt.Errorf("parse the template of quotas: %w", err)
	}
	if err := t.Execute(w, p.Quotas); err != nil {
		return fmt.Errorf("write quotas: %w", err)
	}
	return nil
}

// quoteYAML is a text in quotes. What a terminal would not show is escaped.
func quoteYAML(s string) (string, error) {
	var out strings.Builder
	e := json.NewEncoder(text.JSON(&out))
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// IsFor reports whether a quota is an exception.
func (q *Quota) IsFor() bool { return q.Namespace != "" || q.Controller != "" }

// General is the name of the quota that a quota makes an exception of.
func (q *Quota) General() string { return generalName(q.Type) }

// generalName is the name of the quota of a type.
func generalName(typed string) string { return "recommended-" + strings.ToLower(typed) }

// For says which Events a quota is for, in words.
func (q *Quota) For() string {
	events := q.Type + " Events"
	if q.Type == warningType {
		events = "Warnings"
	}
	switch {
	case q.Namespace != "":
		return events + " of namespace " + text.Sanitize(q.Namespace)
	case q.Controller != "":
		return events + " of controller " + text.Sanitize(q.Controller)
	}
	return events
}

// intervalText is an interval as YAML has it.
func intervalText(interval time.Duration) string {
	if interval == time.Minute {
		return "1m"
	}
	return interval.String()
}

// Refill says how many tokens come back in which time, as in 17/min.
func (l *Limit) Refill() string {
	if l.Interval == time.Minute {
		return fmt.Sprintf("%d/min", l.Tokens)
	}
	return fmt.Sprintf("%d/s", l.Tokens)
}

// Why says in sentences what a limit is based on.
func (l *Limit) Why() []string {
	s := &l.Seen
	buckets := "One bucket for the cluster."
	if len(l.Per) > 0 {
		buckets = "A bucket for each " + strings.ToLower(strings.Join(l.Per, " + ")) + "."
	}
	switch {
	case s.Buckets == 0:
		return []string{buckets + " None had Events, so this is the minimum."}
	case len(l.Per) == 0 || s.Buckets == 1:
		return []string{buckets + fmt.Sprintf(" The busiest minute had %d Events.", s.Peak), l.whyBurst()}
	}
	return []string{
		buckets + fmt.Sprintf(" %d had Events. Events in the busiest minute of a bucket:", s.Buckets),
		fmt.Sprintf("median %d, 99th percentile %d, peak %d (%s).", s.Median, s.P99, s.Peak, text.Sanitize(admission.Truncate(s.Busiest, maxNamed))),
		l.whyBurst(),
	}
}

// maxNamed is how many bytes of a name from outside a comment has.
const maxNamed = 200

func (l *Limit) whyBurst() string {
	return fmt.Sprintf("With a refill of %s, a burst of %d was enough for all usual Events.", l.Refill(), l.Seen.Needed)
}
