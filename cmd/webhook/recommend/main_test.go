package recommend

import (
	"testing"

	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain checks that the tests leave no goroutine.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }
