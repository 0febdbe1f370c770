// Package simulate is the command that says what policies would have done with recorded Events.
package simulate

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// memoryLimit is where the garbage collector begins to work harder, in bytes. What
// is in use may be more.
const memoryLimit = 120 << 20

// Command is eventquota simulate.
func Command() *cobra.Command {
	o := defaultOptions()
	cmd := &cobra.Command{
		Use:   "simulate FILE...",
		Short: "Say what policies would have done with recorded Events",
		Long: `Simulate reads Events that were recorded and decides each as the webhook would
have, on their time stamps. It says what would have been admitted, merged and
dropped, by which policy, and how many writes to etcd are left.

FILE is one of these, compressed by gzip or not; - reads standard input. Several
are put in order by their time stamps.

  an audit log of an API server   at level Request or RequestResponse for Events
  a watch as JSON lines           kubectl get events -A --watch --output-watch-events -o json,
                                  each event in a line: | jq -c
  a list                          kubectl get events -A -o json
  Events as JSON lines

An audit log is exact: it has every request, its user and its time and, for those
that the webhook has decided, the order in which it did. In a watch, what was added
is taken for a CREATE, and what was modified for an UPDATE at the time of its last
occurrence. An Event of a list, or in a line of its own, says how often something
happened, not how often it was written: recorders count what their own spam filters
keep back. So both ends are simulated, the most writes (one for each occurrence,
spread evenly from the first to the last) and the fewest (one, and another where
there are more occurrences). What has expired is not in it, nor are the users.

Where an Event that a recorder updates would not have been stored, the recorder
creates it with the count so far. Policies and labels are in force from the
beginning to the end. One replica with its state in memory is simulated.

The Events are in a temporary file in $TMPDIR meanwhile; memory holds 16 bytes of
each while they are read. Lines that cannot be read are counted, and do not stop it.

It exits with 1 when it fails, and with 2 when it succeeds and --fail-on names
something that has come about.`,
		Example: `  kubectl get events -A -o json | eventquota simulate - --policies policies/
  eventquota simulate audit.log audit-*.log.gz --policies new.yaml --compare old.yaml
  eventquota simulate audit.log --kubeconfig ~/.kube/config --fail-on warning-dropped`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("simulate: must be given files, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.simulate(ctx, cmd, args)
		},
	}
	o.addFlags(cmd.Flags())
	output.Complete(cmd, "output", formats())
	output.Complete(cmd, "fail-on", failureNames())
	return cmd
}
