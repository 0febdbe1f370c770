package simulate

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRecordingRegressions has small realistic inputs for which a number was wrong or a message unhelpful.
func TestRecordingRegressions(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"two-documents.json":        "2 Events as JSON; broken: 3 the rest is not read: it is not JSON from byte 2150 on; 2 to 2: 2 instead of 2",
		"audit-batch.json":          "2 audit log of the API server, level RequestResponse as JSON; 2 to 2: 2 instead of 2",
		"events-v1-list.json":       "3 Events as JSON; 6 to 300: most 39 instead of 300, fewest 6 instead of 6",
		"first-page.json":           "1 Events as JSON; a part, 58000 more; 1 to 1: 1 instead of 1",
		"patch-request-level.jsonl": "1 audit log of the API server, level Request as JSON lines; 1 to 1: 0 instead of 0",
		"skipped-too-big.jsonl":     "3 audit log of the API server, level RequestResponse as JSON lines; 2 the API server omitted the body because it was too large; 1 to 1: 1 instead of 1",
		"watch-twice.jsonl":         "2 watch as JSON lines; 1 duplicates; 1 to 1: 1 instead of 1",
		"combined-2h.json":          "1 Events as JSON; 2 to 2: 2 instead of 2",
		"node-clock-behind.json":    "1 Events as JSON; 1 shifted; 2 to 120: most 13 instead of 120, fewest 2 instead of 2",
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			open := func() (io.ReadCloser, error) { return os.Open(filepath.Join("testdata", "cases", file)) }
			trace, err := Read(t.Context(), []Source{{Name: file, Open: open}}, Exempt{})
			if err != nil {
				t.Fatal(err)
			}
			defer trace.Close()
			if diff := cmp.Diff(want, summarize(t, trace)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// summarize returns the input and the result in one line.
func summarize(t *testing.T, trace *Trace) string {
	t.Helper()
	in := &trace.Input
	var all []string
	for _, f := range in.Files {
		for kind, n := range f.Kinds {
			all = append(all, fmt.Sprintf("%d %s as %s", n, kind, f.Form))
		}
		if f.Part {
			all = append(all, fmt.Sprintf("a part, %d more", f.Remaining))
		}
	}
	slices.Sort(all)
	for _, counts := range []map[string]int64{in.Skipped, in.Unknown} {
		for why, n := range counts {
			all = append(all, fmt.Sprintf("%d %s", n, why))
		}
	}
	for _, b := range in.BrokenLines {
		all = append(all, fmt.Sprintf("broken: %d %s", b.Line, b.Error))
	}
	if in.TimesShifted > 0 {
		all = append(all, fmt.Sprintf("%d shifted", in.TimesShifted))
	}
	var runs []string
	for _, bound := range in.Bounds() {
		o := defaults(nil)
		o.Bound = bound
		r, _ := runTrace(t, trace, o)
		runs = append(runs, strings.TrimSpace(fmt.Sprintf("%s %d instead of %d", bound, r.EtcdWrites.After, r.EtcdWrites.Before)))
	}
	return fmt.Sprintf("%s; %d to %d: %s", strings.Join(all, "; "), in.Fewest, in.Most, strings.Join(runs, ", "))
}
