package serve

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSinkIsFlushedOnStop sends an Event, its repeat, and stops: the file has a line of the repeat, and with
// --sink-admitted one of the first.
func TestSinkIsFlushedOnStop(t *testing.T) {
	for says, test := range map[string]struct {
		change func(o *options)
		want   []string
	}{
		"all":          {func(*options) {}, []string{"merge"}},
		"admitted too": {func(o *options) { o.Sink.Admitted = true }, []string{"admit", "merge"}},
		"none":         {func(o *options) { o.Sink.Default = "None" }, nil},
	} {
		t.Run(says, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events")
			s := startServer(t, newAPIServer(t), func(o *options) {
				o.Sink.File = path
				test.change(o)
			})
			s.ready(t)
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
					t.Fatalf("line %q: %v, want the whole message", line, err)
				}
				got = append(got, record.Attributes["eventquota.verdict"].(string))
			}
			if strings.Join(got, " ") != strings.Join(test.want, " ") {
				t.Errorf("the file has %v, want %v", got, test.want)
			}
		})
	}
}
