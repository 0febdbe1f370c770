package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/text"
)

// simulation is what simulate reports. Its JSON is what -o json prints.
type simulation struct {
	Input simulate.Input `json:"input"`
	// Runs are that of the policies and, if there is one, that of --compare.
	Runs []ran `json:"runs"`
}

// ran is one set of policies and what became of the input under it.
type ran struct {
	Policies string `json:"policies"`
	*simulate.Result
}

func (s *simulation) write(w io.Writer, format string) error {
	if format == "html" {
		return s.writeHTML(w)
	}
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(s)
	}
	s.printInput(w)
	s.printFigures(w)
	for _, r := range s.Runs {
		r.printPolicies(w, len(s.Runs) > 1)
	}
	for _, r := range s.Runs {
		title := func(what string) string {
			if len(s.Runs) > 1 {
				return what + " UNDER " + r.Policies
			}
			return what
		}
		printTop(w, title("SOURCE"), r.Sources)
		printTop(w, title("OBJECT"), r.Objects)
		printTop(w, title("REASON"), r.Reasons)
	}
	return nil
}

// printInput says what was read, and what of it could not be.
func (s *simulation) printInput(w io.Writer) {
	in := &s.Input
	fmt.Fprintf(w, "%s: %d entries, %d writes", strings.Join(in.Files, ", "), in.Entries, in.Writes)
	if in.Writes > 0 {
		fmt.Fprintf(w, " from %s to %s", in.First.Format(time.RFC3339), in.Last.Format(time.RFC3339))
	}
	fmt.Fprintln(w)
	for _, why := range slices.Sorted(maps.Keys(in.Skipped)) {
		fmt.Fprintf(w, "  %d skipped: %s\n", in.Skipped[why], why)
	}
	if in.Broken == 0 {
		return
	}
	fmt.Fprintf(w, "  %d broken:\n", in.Broken)
	for _, b := range in.BrokenLines {
		fmt.Fprintf(w, "    %s:%d: %s\n", b.File, b.Line, text.Visible(b.Error))
	}
	if more := in.Broken - int64(len(in.BrokenLines)); more > 0 {
		fmt.Fprintf(w, "    and %d more\n", more)
	}
}

// printPolicies prints what each policy did.
func (r *ran) printPolicies(w io.Writer, named bool) {
	head := "POLICY"
	if named {
		head += " OF " + r.Policies
	}
	rows := [][]string{{head, "ADMITTED", "MERGED", "DROPPED", "BY"}}
	for _, p := range r.Result.Policies {
		name := p.Policy
		if p.Audited {
			name += " (audited: would have)"
		}
		rows = append(rows, append([]string{name}, append(counted3(p.Counts), cmp.Or(bucketList(p.Buckets), "-"))...))
	}
	fmt.Fprintln(w)
	table(w, rows)
}
