package recommend

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that the tests leave no goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
