// Command prebuild builds the control plane that the tests run on and prints where it
// is, so that the minutes of a first build do not count against a test's time limit:
//
//	go run ./test/cluster/prebuild
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/eventquota/eventquota/test/cluster/binaries"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	set, err := binaries.Ensure(ctx, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(filepath.Dir(set.Path("kube-apiserver")))
}
