package policytest

import (
	"testing"

	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain checks that no goroutine is left after all tests.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }
