//go:build !linux

package cluster

import (
	"context"
	"testing"
)

// RunIsolated fails the test: only Linux has network namespaces.
func RunIsolated(t *testing.T, _ ...func(context.Context) error) bool {
	t.Helper()
	skipIfShort(t)
	t.Fatal("this test needs a network namespace, which only Linux has")
	return false
}
