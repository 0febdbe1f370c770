package serve

import (
	"testing"

	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain fails if a goroutine is left when all tests have ended.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }
