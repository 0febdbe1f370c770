// Package orphan ends a program once its parent process has died.
package orphan

import (
	"os"
	"time"
)

// Exit ends this program within about a second of the death of its parent. A test that is killed, or that exceeds its
// time limit, cannot stop the programs that it started, such as an API server and etcd. Exit polls the parent's process
// id instead of asking the kernel for a signal. Only Linux has that signal, and it also comes when just the thread
// that started the program ends.
//
// Exit returns at once and watches in the background until the program ends.
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
