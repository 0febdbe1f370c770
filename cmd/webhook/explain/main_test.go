package explain

import (
	"testing"

	"github.com/eventquota/eventquota/test/leaks"
	"github.com/eventquota/eventquota/test/userenv"
)

// TestMain hides the cluster of the user, and fails if a goroutine is left after all tests.
func TestMain(m *testing.M) {
	userenv.HideCluster()
	leaks.VerifyTestMain(m)
}
