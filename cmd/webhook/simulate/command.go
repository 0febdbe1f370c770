// Package simulate is the command that says what policies and quotas would have done with recorded Events.
package simulate

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/replay"
)

// options are the flags.
type options struct {
	replay.Recordings
	replay.Policies

	Compare []string
	Output  string
}

// The values of --output that other commands do not have.
const (
	formatHTML      = "html"
	formatDecisions = "decisions"
)

// Command is eventquota simulate.
func Command() *cobra.Command {
	o := &options{Recordings: replay.NewRecordings(), Output: output.Table}
	cmd := &cobra.Command{
		Use:   "simulate {FILE... | --sample KIND}",
		Short: "Say what policies and quotas would have done with recorded Events",
		Long: `Simulate reads Events that were recorded and decides each as the webhook would
have, on their time stamps. It says what would have been admitted, merged and
dropped, by which policy or quota, how many writes to etcd are left, which rules
and limits applied to none of the Events and why, and which conditions failed.

FILE is one of these, or a directory that has some, such as that of oc adm
must-gather or kubectl cluster-info dump; - reads standard input. Several are put in
order by their time stamps.

  an audit log of an API server   at level Request or RequestResponse for Events
  a watch                         kubectl get events -A --watch --output-watch-events -o json
  a list                          kubectl get events -A -o json
  Events

They may be JSON in lines, one value after the other or an array, or YAML; compressed
by gzip, zstd or bzip2; in UTF-16; with a prefix before each line, as of oc adm
node-logs; or wrapped by a collector or cloud, such as Fluent Bit, Loki, CloudWatch,
Cloud Logging or Azure. The report says as what each was recognized.

An audit log says most: it has every request that was logged with a body, its user
and its time and, for those that the webhook has decided, the order in which it did. In a watch, what was added
is taken for a CREATE, and what was modified for an UPDATE at the time of its last
occurrence. An Event of a list, or in a line of its own, says how often something
happened, not how often it was written: recorders count what their own spam filters
keep back. So both ends are simulated, the most writes (one for each occurrence,
spread evenly from the first to the last) and the fewest (one, and another where
there are more occurrences). What has expired is not in it, nor are the users.

Without a recording, --sample makes one, the same each time:

  churn    50,000 pods are killed and replaced in five minutes: 145,259 Events, each
           about another pod or of another reason, as in kubernetes/kubernetes#141022
  narrow   an operator whose client merges nothing fails for five minutes: 60,000
           Warnings about five objects, each with another message
  probes   a rollout of 200 pods whose readiness and liveness probes fail for ten
           minutes: 5,600 writes by the recorders of kubelets, which keep others back
  quiet    ten minutes of a cluster without a storm, of 100 nodes unless --sample-nodes
           says otherwise: each starts and stops 6 pods an hour, and each 1,000 nodes or
           fewer roll out 50 pods every five minutes

Unless --policies or --kubeconfig says otherwise, a sample runs under the policies of
every installation: the built-in default, and the quotas that all manifests apply. A
recording runs under the built-in default alone, and so does --policies default.

Where an Event that a recorder updates would not have been stored, the recorder
creates it with the count so far. Policies, quotas and labels are in force from the
beginning to the end. One replica with its state in memory is simulated, and an API
server that keeps an Event for an hour after its last write, unless --event-ttl says
otherwise.

What the recording does not have is said, and is in no number: writes whose body an
audit log leaves out, and changes of Events that it does not have. What cannot be read
is counted, and does not stop it. Meanwhile the Events are in a temporary file in
$TMPDIR; memory holds little more than an index.`,
		Example: `  eventquota simulate --sample churn
  eventquota simulate --sample quiet --policies policies/
  kubectl get events -A -o json | eventquota simulate - --policies policies/
  eventquota simulate audit-*.log.gz --policies new.yaml --compare old.yaml
  eventquota simulate audit.log --kubeconfig ~/.kube/config -o json | jq -e '.runs[0].warningsDropped == 0'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) > 0) == (o.Sample != "") {
				return errors.New("simulate: must be given files, - for standard input, or --sample")
			}
			if err := o.Validate(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.simulate(ctx, cmd, args)
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (o *options) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.Paths, "policies", o.Paths, "files, or directories of .yaml, .yml and .json files, with policies and quotas, and with the Namespaces that they select by label; default is the built-in default alone, which a recording runs under without this flag")
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file of a cluster whose policies, quotas and namespaces are taken instead")
	f.StringSliceVar(&o.Compare, "compare", o.Compare, "a second set of policies and quotas, like --policies, whose figures are shown beside; or default for the built-in default")
	o.AddFlags(cmd)
	output.AddChoiceFlag(cmd, &o.Output, "output", "o", []string{output.Table, output.JSON, formatHTML, formatDecisions},
		"format: table, json, html for a page that needs nothing else, or decisions for a line of JSON about each write")
	cmd.MarkFlagsMutuallyExclusive("policies", "kubeconfig")
}
