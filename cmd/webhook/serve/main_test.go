package serve

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain holds that no goroutine is left when all tests have ended.
func TestMain(m *testing.M) {
	if does, ok := os.LookupEnv(attacking); ok {
		if err := runAttack(does); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
