//go:build !linux

package cluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

// RunIsolated fails the test: only Linux has network namespaces.
func RunIsolated(t *testing.T, _ ...func(context.Context) error) bool {
	t.Helper()
	skipIfShort(t)
	t.Fatal("this test needs a network namespace, which only Linux has")
	return false
}

// RunAllIsolated fails: only Linux has network namespaces. With -short, the tests run as they are.
func RunAllIsolated(m *testing.M, _ ...func(context.Context) error) int {
	flag.Parse() //nolint:revive // testing.Short needs it
	if testing.Short() {
		return m.Run()
	}
	fmt.Fprintln(os.Stderr, "these tests need a network namespace, which only Linux has")
	return 1
}
