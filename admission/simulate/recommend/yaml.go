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

// WriteYAML writes the quotas as YAML for kubectl apply. Comments explain each number.
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

// quoteYAML returns s in quotes, with unprintable characters escaped.
func quoteYAML(s string) (string, error) {
	var out strings.Builder
	e := json.NewEncoder(text.JSON(&out))
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// IsFor reports whether a quota is an exception.
func (q *Quota) IsFor() bool { return q.Namespace != "" || q.Controller != "" }

// General returns the name of the general quota that q is an exception to.
func (q *Quota) General() string { return generalName(q.Type) }

// generalName returns the name of the general quota for a type.
func generalName(typed string) string { return "recommended-" + strings.ToLower(typed) }

// For describes in words which Events a quota is for.
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

// intervalText returns an interval in the YAML format.
func intervalText(interval time.Duration) string {
	if interval == time.Minute {
		return "1m"
	}
	return interval.String()
}

// Refill returns the refill rate as text, such as 17/min.
func (l *Limit) Refill() string {
	if l.Interval == time.Minute {
		return fmt.Sprintf("%d/min", l.Tokens)
	}
	return fmt.Sprintf("%d/s", l.Tokens)
}

// Why explains in sentences what a limit is based on.
func (l *Limit) Why() []string {
	s := &l.Observed
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

// maxNamed is the maximum length in bytes of a recorded name in a comment.
const maxNamed = 200

func (l *Limit) whyBurst() string {
	return fmt.Sprintf("With a refill of %s, a burst of %d was enough for all usual Events.", l.Refill(), l.Observed.Needed)
}
