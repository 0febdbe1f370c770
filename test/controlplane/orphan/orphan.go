// Package orphan ends a program whose parent is gone.
package orphan

import (
	"os"
	"time"
)

// Exit ends this program within about a second of its parent's end. A test that is
// killed, or that runs into its time limit, cannot stop what it has started; without
// this an API server and an etcd would stay behind. It looks for a new parent instead
// of asking the kernel for a signal, because that signal also comes when only the
// thread that started the program ends, and exists on Linux alone.
//
// It returns at once and watches until the program ends.
func Exit() {
	parent := os.Getppid()
	go func() {
		for range time.Tick(time.Second) {
			if os.Getppid() != parent {
				os.Exit(1)
			}
		}
	}()
}
