package serve

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSinkIsFlushedOnStop sends an Event and its repeat, and stops. The file must have a line for the repeat, and with --sink-admitted
// also one for the first Event.
func TestSinkIsFlushedOnStop(t *testing.T) {
	for name, test := range map[string]struct {
		change func(o *options)
		want   []string
	}{
		"all":          {func(*options) {}, []string{"merge"}},
		"admitted too": {func(o *options) { o.Sink.Admitted = true }, []string{"admit", "merge"}},
		"none":         {func(o *options) { o.Sink.Default = "None" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events")
			s := startServer(t, newAPIServer(t), func(o *options) {
				o.Sink.File = path
				test.change(o)
			})
			s.readyForEvents(t)
			s.callAs(t, "first", "")
			s.callAs(t, "second", "")
			s.end(t)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range bytes.Lines(content) {
				var record struct {
					Body       string
					Attributes map[string]any
				}
				if err := json.Unmarshal(line, &record); err != nil || !strings.Contains(record.Body, password) {
					t.Fatalf("line %q: error %v, want JSON with the whole message", line, err)
				}
				got = append(got, record.Attributes["eventquota.verdict"].(string))
			}
			if strings.Join(got, " ") != strings.Join(test.want, " ") {
				t.Errorf("the file has the verdicts %v, want %v", got, test.want)
			}
		})
	}
}
