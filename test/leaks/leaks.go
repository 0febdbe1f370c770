// Package leaks checks that the tests of a package leave no goroutine.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// timeout bounds the wait for goroutines that are about to end. On a busy machine, closing a watch of a file can take longer than goleak waits.
const timeout = time.Minute

// VerifyTestMain runs the tests and exits. If all pass but goroutines still run after a minute, it prints their stacks and exits with 1.
// The function of that name in goleak waits for less than half a second.
func VerifyTestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		err := goleak.Find()
		for deadline := time.Now().Add(timeout); err != nil && time.Now().Before(deadline); {
			err = goleak.Find()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "all tests have passed, but goroutines still run after %s: %v\n", timeout, err)
			code = 1
		}
	}
	os.Exit(code) //nolint:revive // TestMain calls only this
}
