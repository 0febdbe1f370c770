// Command prebuild builds the control plane for the tests and prints its location. Run it first, so that the minutes of
// a first build do not count against a test's time limit:
//
//	go run ./test/cluster/prebuild [program ...]
//
// Without arguments, it builds all programs.
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
	programs := os.Args[1:]
	if len(programs) == 0 {
		programs = binaries.Programs()
	}
	set, err := binaries.Ensure(ctx, os.Stderr, programs...)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(filepath.Dir(set.Path(programs[0])))
}
