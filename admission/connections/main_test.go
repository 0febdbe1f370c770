package connections

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain holds that no connection leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
