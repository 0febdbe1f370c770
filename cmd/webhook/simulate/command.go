// Package simulate is the command that shows what policies and quotas would have done with recorded Events.
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

// Values of --output that only simulate has.
const (
	formatHTML      = "html"
	formatDecisions = "decisions"
)

// Command returns eventquota simulate.
func Command() *cobra.Command {
	o := &options{Recordings: replay.NewRecordings(), Output: output.Table}
	cmd := &cobra.Command{
		Use:   "simulate {FILE... | --sample KIND}",
		Short: "Show what policies and quotas would have done with recorded Events",
		Long: `Simulate replays recorded Events and decides each as the webhook would have decided it
at that time. It reports what would have been admitted, merged and dropped, by which
policy or quota, and how many writes to etcd remain. It also lists policies, quotas and
limits that applied to no Event, and conditions that failed.

FILE is one of the following, a directory of such files (for example from oc adm
must-gather or kubectl cluster-info dump), or - for standard input. Several inputs are
merged by time.

  an audit log of an API server   at level Request or RequestResponse for Events
  a watch                         kubectl get events -A --watch --output-watch-events -o json
  a list                          kubectl get events -A -o json
  single Events

The input is JSON (one value per line, one after the other, or in an array) or YAML. It
may be compressed with gzip, zstd or bzip2, or encoded in UTF-16. Lines may have a
prefix, as in the output of oc adm node-logs. A collector or cloud may have wrapped
them, such as Fluent Bit, Loki, CloudWatch, Cloud Logging or Azure. The report names the
form of each input.

An audit log is the most precise input. It has every request that was logged with its
body, the user and the time. For requests that the webhook decided, it also has the
order of the decisions.

In a watch, an added Event counts as a CREATE. A modified Event counts as an UPDATE at
the time of its last occurrence.

A list or a single Event shows how often something happened, not how often it was
written: the count includes what the recorder's own spam filter held back. So two
extremes are simulated. The most writes are one for each occurrence, spread evenly from
the first to the last. The fewest are one write, or two if there are several
occurrences. Lists lack users and expired Events.

Without a recording, --sample generates one, which is the same each time:

  churn    50,000 pods are killed and replaced in five minutes: 145,259 Events, each
           about another pod or with another reason, as in kubernetes/kubernetes#141022
  narrow   an operator fails for five minutes, and its client merges nothing: 60,000
           Warnings about five objects, each with a different message
  probes   a rollout of 200 pods whose readiness and liveness probes fail for ten
           minutes: 5,600 writes by kubelets, whose recorders hold others back
  quiet    ten minutes of a cluster without a storm. It has 100 nodes, or --sample-nodes:
           each node starts and stops 6 pods an hour, and every 1,000 nodes or fewer roll
           out 50 pods every five minutes

Events are decided under the default installation: the built-in default and the quota
ceiling, which all manifests apply. --policies and --kubeconfig choose other policies and
quotas in place of ceiling, and --policies default the built-in default alone.

If a recorder updates an Event that would not have been stored, the simulated recorder
creates it with the count so far. Policies, quotas and labels are in force from
beginning to end. The simulation has one replica with its state in memory, and an API
server that keeps an Event for an hour after its last write, or for --event-ttl.

Some writes cannot be decided: the audit log omits their body, or they change an Event
that the recording lacks. The report names their number, and counts them nowhere else.
Input that cannot be read is counted and skipped. During the simulation, the Events are
in a temporary file in $TMPDIR, and memory holds little more than an index.`,
		Example: `  eventquota simulate --sample churn
  eventquota simulate --sample quiet --policies policies/
  kubectl get events -A -o json | eventquota simulate - --policies policies/
  eventquota simulate audit-*.log.gz --policies new.yaml --compare old.yaml
  eventquota simulate audit.log --kubeconfig ~/.kube/config -o json | jq -e '.runs[0].warningsDropped == 0'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) > 0) == (o.Sample != "") {
				return errors.New("simulate: either name files (- is standard input) or set --sample")
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
	f.StringSliceVar(&o.Paths, "policies", o.Paths, "files, or directories of .yaml, .yml and .json files, with policies, quotas and the Namespaces that they select by label; default means the built-in default alone")
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file of a cluster whose policies, quotas and namespaces are used instead")
	f.StringSliceVar(&o.Compare, "compare", o.Compare, "a second set of policies and quotas to compare with, in the form of --policies")
	o.AddFlags(cmd)
	output.AddChoiceFlag(cmd, &o.Output, "output", "o", []string{output.Table, output.JSON, formatHTML, formatDecisions},
		"format: table, json, html for a self-contained page, or decisions for one line of JSON per write")
	output.RefuseEmpty(f, "policies", "kubeconfig", "compare")
	cmd.MarkFlagsMutuallyExclusive("policies", "kubeconfig")
}
