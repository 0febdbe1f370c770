package sample

import (
	"testing"

	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain holds that no goroutine is left when all tests have ended.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }
