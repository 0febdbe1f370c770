// Package explain is the command that says what is merged and dropped of an object's Events, and what a
// replica answers it.
package explain

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// Command is eventquota explain.
func Command() *cobra.Command {
	o := defaultOptions()
	cmd := &cobra.Command{
		Use:   "explain KIND/NAME",
		Short: "Say what is merged and dropped of an object's Events, and why",
		Long: `Explain says of one object, for each source of Events about it: what of them is
counted, merged into others, and not written yet; how many tokens its buckets have
and when the next one comes; what was dropped; which policy governs and why; and
what would become of one more Event now.

It reads the stored Events and the policies from the API server, as the user of your
kubeconfig: the right to list events, eventpolicies and clustereventpolicies and
to get the namespace is needed. What is merged and pending it asks one replica, as
top does, by the same rights: one that keeps its state in memory has only its own. It
changes nothing.

A source is known by its stored Events and notices only: one that has neither any more
is not shown. What is merged and dropped is kept for each user that writes, and an Event
does not say who wrote it: explain looks for the users that kubelets, schedulers and the
controllers of Kubernetes are, and --writer names others.`,
		Example: `  eventquota explain pod/web-0 -n storm
  kubectl eventquota explain node/node-1 -n default --context prod
  eventquota explain pod/web-0 --endpoint https://10.0.3.7:8443 --endpoint-token-file token --endpoint-ca-file ca.crt
  eventquota explain pod/web-0 --endpoint http://127.0.0.1:8080 -o json | jq .sources`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("explain: must be given one object as KIND/NAME, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.explain(ctx, cmd.OutOrStdout(), args[0])
		},
	}
	o.addFlags(cmd.Flags())
	output.Complete(cmd, "output", output.Names())
	return cmd
}

// explain reads all that is known of an object and prints it.
func (o *options) explain(ctx context.Context, out io.Writer, arg string) error {
	object, err := parseObject(arg)
	if err != nil {
		return err
	}
	if err := o.validate(); err != nil {
		return err
	}
	config, namespace, err := o.Replicas.Cluster.Config("eventquota-explain")
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	about, err := object.events(ctx, client, namespace)
	if err != nil {
		return err
	}
	policies, notes, err := policiesFor(ctx, config, namespace)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	replica, err := o.Replicas.Open(ctx, "eventquota-explain")
	if err != nil {
		return err
	}
	defer replica.Close()
	e := newExplainer(o, policies, namespace)
	if err := e.explain(ctx, replica, about); err != nil {
		return err
	}
	e.report.Notes = append(e.report.Notes, notes...)
	if err := e.report.write(out, o.Output); err != nil {
		return fmt.Errorf("explain: write the report: %w", err)
	}
	return nil
}
