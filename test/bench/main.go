// Command bench measures the cost of eventquota:
//
//   - Requests per second, latencies and etcd proposals on a real API server. The same load also runs without a webhook, with a
//     webhook that does not read the Event, and with the API server's EventRateLimit plugin.
//   - The latency of a single writer on the same API server, which writes one Event after another. The webhook's store is its own memory
//     or Redis.
//   - The latency of other clients during a storm, with and without the priority levels for Event writes.
//   - The latency of other clients while a tenant attacks the webhook.
//   - The time and allocations of the handlers alone, and of finding the policy and quotas of an Event.
//   - Whole decisions on Redis, compared with redis_rate.
//   - The speed and memory of eventquota simulate.
//
// bench starts and stops everything that it needs, on the loopback address. It compares only what it measures in the same run, in
// alternating rounds. A figure is the median over the rounds, and a ratio is the median of the ratios within a round. bench prints
// tables to standard output and progress to standard error, and writes the figures to a file.
//
// bench record copies the figures of such files into docs/bench.json. bench render renders the documentation from docs/bench.json.
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

// run runs the subcommand that the arguments name, or the measurements if they name none.
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
