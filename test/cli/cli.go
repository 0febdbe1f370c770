// Package cli has helpers for tests of commands.
package cli

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

//nolint:gochecknoglobals // a flag of the test binary
var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// WithRoot returns a program with one command.
func WithRoot(cmd *cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: "eventquota", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(cmd)
	return root
}

// Run runs a program with arguments and returns its output.
func Run(t *testing.T, root *cobra.Command, stdin io.Reader, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	root.SetIn(stdin)
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(append([]string{}, args...)) // without any, cobra would take those of the test binary
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// WantError fails the test unless the arguments give a one-line error with the prefix want and no other output.
func WantError(t *testing.T, root *cobra.Command, want string, args ...string) {
	t.Helper()
	out, errs, err := Run(t, root, EndlessReader{}, args...)
	if err == nil {
		t.Errorf("no error, want one that begins with %q", want)
		return
	}
	message := strings.TrimSuffix(err.Error(), "\n")
	if !strings.HasPrefix(message, want) || strings.Contains(message, "\n") || out != "" || errs != "" {
		t.Errorf("error %q, output %q and %q, want only an error that begins with %q", message, out, errs, want)
	}
}

// EndlessReader is a reader without an end.
type EndlessReader struct{}

func (EndlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// CompareGolden fails the test unless got equals the content of a golden file. With -update it rewrites the file.
func CompareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want := ReadFile(t, path); got != want {
		t.Errorf("got\n%s\nwant the content of %s, which -update rewrites:\n%s", got, path, want)
	}
}

// ReadFile returns the content of a file.
func ReadFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Eventually waits until check returns true, and fails the test after five minutes. A check that takes long, such as one that reads all
// Events, is made less often: it would keep the servers that it asks busy.
func Eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		begun := time.Now()
		if check() {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("timed out after five minutes: %s", what)
		case <-time.After(max(100*time.Millisecond, min(10*time.Since(begun), 5*time.Second))):
		}
	}
}
