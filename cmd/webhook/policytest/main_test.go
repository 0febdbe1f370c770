package policytest

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that no goroutine is left after all tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
