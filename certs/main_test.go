package certs

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain holds that no goroutine is left when all tests have ended.
func TestMain(m *testing.M) {
	// controller-runtime's watcher of files opens it when it is made, and closes it only after it has run.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/fsnotify/fsnotify.(*inotify).readEvents"))
}
