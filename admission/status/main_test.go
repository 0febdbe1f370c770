package status_test

import (
	"testing"

	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain fails if a goroutine is left after all tests.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }
