//go:build !linux

package cluster

import (
	"context"
	"testing"
)

// Isolated fails the test: network namespaces are Linux'.
func RunIsolated(t *testing.T, _ ...func(context.Context) error) bool {
	t.Helper()
	t.Fatal("this test needs a network namespace, and with that Linux")
	return false
}
