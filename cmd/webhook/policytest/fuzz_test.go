package policytest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// FuzzFile reads arbitrary bytes as a test file. Each error must be one line that names the file. A valid file must run.
func FuzzFile(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/passing/*", "testdata/passing/below/*", "../../../test/policies/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s matches %d files, error %v", pattern, len(files), err)
		}
		for _, name := range files {
			content, err := os.ReadFile(name)
			if err != nil {
				continue // a directory
			}
			f.Add(content)
		}
	}
	for _, content := range []string{"", "a: [", "{a: *b}", "&a [*a]", "\xff\xfe", file(), file("admitted: 1", "admitted: {max: 3}, policy: default"), file("times: 1", "times: 3\n    every: 1h\n    repeat: Patch")} {
		f.Add([]byte(content))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if bytes.Contains(content, []byte("policies")) {
			return // the file could name other files
		}
		s, err := newSuite("file", content)
		if all, ok := errors.AsType[document.FieldErrors](err); ok {
			for _, fieldErr := range all {
				if fieldErr.Line < 1 || fieldErr.Reason == "" {
					t.Errorf("error %+v, want one with a line and a reason", fieldErr)
				}
			}
		}
		if err != nil {
			if message := err.Error(); strings.ContainsAny(message, "\r\n") || !strings.HasPrefix(message, "file:") || len(message) < len("file: a") {
				t.Errorf("error %q, want one line that begins with the name of the file", message)
			}
			return
		}
		for i := range s.tests {
			writes := 0
			for _, w := range s.steps[i] {
				writes += w.objects * w.times
			}
			if writes > 100 {
				continue // too slow
			}
			if _, err := s.run(t.Context(), i); err != nil {
				t.Errorf("a valid test fails to run: %v", err)
			}
		}
	})
}
