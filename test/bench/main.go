// Command bench measures what eventquota costs: requests a second, latencies
// and etcd proposals on a real API server, beside no webhook, a webhook that looks
// at nothing, and the API server's own EventRateLimit plugin; what its other
// clients notice of a storm, with and without the priority levels for Event
// writes; the time and allocations of the handlers alone; what it takes to
// find the policy that governs; and whole decisions on Redis beside redis_rate.
//
// It starts and stops all it needs, on loopback. All that is compared is
// measured in the same run, in rounds that alternate; a figure is the median
// of the rounds, a ratio the median of the ratios within a round. The table
// goes to standard output, the figures to a file, progress to standard error.
//
// bench record puts such files into docs/bench.json, and bench render the figures from there into the documentation.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/eventquota/eventquota/test/flood"
)

func main() {
	if flood.Main() {
		return
	}
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run does what the arguments ask for.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case serveCommand:
			return servePlain(ctx, args[1:])
		case recordCommand:
			return record(ctx, args[1:])
		case renderCommand:
			return renderDocs(ctx, args[1:])
		}
	}
	o, err := parseOptions(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	return bench(ctx, o, os.Stdout)
}
