package cluster

import (
	"os"
	"testing"
)

// ForTest starts a control plane that stops when the test ends, and fails the test if that fails. With -short, it skips the test. A
// nil opts.Log means standard error, so that the progress of a first build is visible.
func ForTest(tb testing.TB, opts Options) *Cluster {
	tb.Helper()
	skipIfShort(tb)
	if opts.Log == nil {
		opts.Log = os.Stderr
	}
	c, err := Start(tb.Context(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

func skipIfShort(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("no control plane is started with -short") //nolint:forbidigo // -short asks for it
	}
}
