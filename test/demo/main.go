// Command demo shows the effect of eventquota: three storms of Events hit an API server, each first with the
// webhook and then without it. It starts and stops all programs on loopback.
//
// With -keep, it starts the same control plane and webhook, prints how to reach them, and runs them until it is
// interrupted.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/eventquota/eventquota/test/replica"
)

func main() {
	// The storms' recorders log every refused Event.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run executes the command with arguments.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("demo", flag.ExitOnError)
	keep := flags.Bool("keep", false, "start the cluster and the webhook and keep them up until interrupted")
	build := flags.Bool("build", false, "build the webhook and start nothing")
	// A storm runs in another process of this program.
	storm := flags.String("storm", "", "used by the demo itself")
	namespace := flags.String("namespace", "", "used by the demo itself")
	kubeconfig := flags.String("kubeconfig", "", "used by the demo itself")
	_ = flags.Parse(args) // exits on an error
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q: there are none", flags.Arg(0))
	case *storm != "":
		return runStorm(ctx, *storm, *namespace, *kubeconfig)
	case *build:
		_, err := replica.Build(ctx)
		return err
	case *keep:
		return keepUp(ctx)
	}
	return demo(ctx)
}
