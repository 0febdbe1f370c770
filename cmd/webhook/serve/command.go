// Package serve is the command that serves the webhook and writes pending counts. It wires the other packages together.
package serve

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Command returns the command eventquota serve. Metrics, traces and the sink report version.
func Command(version string) *cobra.Command {
	o := &options{version: version}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the webhook and write the counts of merged Events",
		Long: `Serve answers admission reviews of Events at /mutate and /validate, and writes
the counts of merged Events to the API server. With self-managed certificates,
these paths end in a secret segment.

It stops on SIGTERM or SIGINT. Readiness fails at once, and reviews are still
answered for --shutdown-delay. Then it writes the pending counts and notices
within --drain-timeout. A second signal stops it at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			log := o.logger(cmd.ErrOrStderr())
			ctrllog.SetLogger(log)
			klog.SetLogger(log)
			logTraces(log)
			ctx, stop := signal.NotifyContext(logr.NewContext(cmd.Context(), log), os.Interrupt, syscall.SIGTERM)
			context.AfterFunc(ctx, stop) // a second signal kills the process
			defer stop()
			s, err := newServer(o, log)
			if err != nil {
				return err
			}
			if err := s.run(ctx); err != nil {
				return fmt.Errorf("serve: %w", err)
			}
			return nil
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}
