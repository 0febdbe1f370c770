// Package cli is what tests of commands share.
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
	"k8s.io/apimachinery/pkg/util/wait"
)

//nolint:gochecknoglobals // a flag of the test binary
var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// WithRoot is a program that has one command.
func WithRoot(cmd *cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: "eventquota", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(cmd)
	return root
}

// Run runs a program with arguments, and returns what it wrote.
func Run(t *testing.T, root *cobra.Command, stdin io.Reader, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	root.SetIn(stdin)
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// WantError holds that arguments get an error of one line that begins in a way, and that nothing else is said.
func WantError(t *testing.T, root *cobra.Command, want string, args ...string) {
	t.Helper()
	out, errs, err := Run(t, root, EndlessReader{}, args...)
	if err == nil {
		t.Error("no error")
		return
	}
	says := strings.TrimSuffix(err.Error(), "\n")
	if !strings.HasPrefix(says, want) || strings.Contains(says, "\n") || out != "" || errs != "" {
		t.Errorf("error %q after %q and %q, want only one that begins with %q", says, out, errs, want)
	}
}

// EndlessReader is a file without an end.
type EndlessReader struct{}

func (EndlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// CompareGolden holds that got is what a file has. With -update it becomes what the file has.
func CompareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want := ReadFile(t, path); got != want {
		t.Errorf("got\n%s\nwant what is in %s; -update rewrites it:\n%s", got, path, want)
	}
}

// ReadFile is what is in a file.
func ReadFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Eventually waits until check says yes.
func Eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return check(), nil })
	if err != nil {
		t.Fatalf("%s: not within a minute", what)
	}
}
