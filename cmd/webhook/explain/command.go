// Package explain is the command that shows what becomes of an object's Events, and the endpoint of a replica
// that it asks.
package explain

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
)

// options are the flags of explain.
type options struct {
	Replicas *replicas.Options
	Writers  []string
	Output   string
}

// Command is eventquota explain.
func Command() *cobra.Command {
	o := &options{Output: output.Table}
	cmd := &cobra.Command{
		Use:   "explain KIND/NAME",
		Short: "Show what is merged and dropped of an object's Events, and why",
		Long: `Explain shows, for each source of Events about an object: what is counted, merged
into other Events and not yet written; what was dropped, by which policy or quota;
which policy governs and why; how many tokens its buckets have, and when the next
one comes.

It reads the stored Events and the policies from the API server as the user of your
kubeconfig, who needs the right to list events, eventpolicies, eventquotas,
clustereventpolicies and clustereventquotas, and to get the namespace. It asks one
replica what is merged and pending, with the same rights as top; a replica that keeps
its state in memory only knows its own. It changes nothing.

A source is only known by its stored Events: one that has none is not shown. What is
merged and dropped is kept for each user that writes, and an Event does not say who
wrote it. Explain tries the users of kubelets, schedulers and the controllers of
Kubernetes; --writer names others.`,
		Example: `  eventquota explain pod/web-0 -n storm
  kubectl eventquota explain node/node-1 -n default --context prod
  eventquota explain pod/web-0 --endpoint http://127.0.0.1:8080 -o json | jq .sources`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("explain: must be given one object as KIND/NAME, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), cmd.OutOrStdout(), args[0]) },
	}
	f := cmd.Flags()
	o.Replicas = replicas.AddFlags(f, true)
	f.StringArrayVar(&o.Writers, "writer", nil, "user whose Events to look at; may be given several times; none for the users that Kubernetes' own sources write as")
	output.OneOf(cmd, &o.Output, "output", "o", output.Formats(), "format of the report: table, wide for all Events rather than 30 of a source, json, yaml, or name for the names of Events")
	return cmd
}

// run reads all that is known of an object and prints it.
func (o *options) run(ctx context.Context, out io.Writer, arg string) error {
	object, err := parseObject(arg)
	if err != nil {
		return err
	}
	config, namespace, err := o.Replicas.Cluster.Config()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	events, err := object.events(ctx, client, namespace)
	if err != nil {
		return err
	}
	policies, err := policyfile.OfCluster(ctx, config, namespace)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	replica, err := o.Replicas.Open(ctx)
	if err != nil {
		return err
	}
	defer replica.Close()
	x := explainer{writers: o.Writers, policies: policies.Set(), replica: replica, report: report{
		Namespace: namespace, Kind: events[0].InvolvedObject.Kind, Name: events[0].InvolvedObject.Name,
	}}
	if err := x.explain(ctx, events); err != nil {
		return err
	}
	for _, err := range policies.Invalid {
		x.note("%v", err)
	}
	if err := x.report.write(out, o.Output); err != nil {
		return fmt.Errorf("explain: write the report: %w", err)
	}
	return nil
}
