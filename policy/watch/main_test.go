package watch_test

import (
	"testing"

	"github.com/eventquota/eventquota/test/leaks" //nolint:depguard // of tests alone
)

// TestMain holds that no goroutine is left when all tests have ended.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }
