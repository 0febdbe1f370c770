// Package recommend is the command that proposes quotas, sized by recorded Events.
package recommend

import (
	"errors"
	"fmt"
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

	Headroom float64
	Expected []string
	Output   string
}

// The bounds and the default of --headroom.
const minHeadroom, defaultHeadroom, maxHeadroom = 1, 1.5, 100

// Command returns eventquota recommend.
func Command() *cobra.Command {
	o := &options{Recordings: replay.NewRecordings(), Headroom: defaultHeadroom, Output: output.Table}
	cmd := &cobra.Command{
		Use:   "recommend {FILE... | --kubeconfig FILE | --sample KIND}",
		Short: "Size quotas by recorded Events",
		Long: `Recommend sizes quotas by Events that were recorded, or that a cluster stores now. The
quotas are large enough to refuse no usual Event, and small enough to bound a storm.
The output shows the basis of each number, and simulates the quotas on the same Events.

FILE is a recording in any form that eventquota simulate reads, a directory, or - for
standard input. With --kubeconfig and without a FILE, the Events that the cluster stores
are read. These are the Events of the last hour, unless its API server keeps them longer.

There is one quota for Normal Events and one for Warnings. Each limits the stored Events

  of each namespace, controller and reason
  of each namespace
  of each controller
  of the cluster

Up to 8 namespaces and 8 controllers that need at least twice the minimum get limits of
their own. A limit refills at the average rate of its busiest bucket in that bucket's
busiest hour. Its burst is the smallest that would have refused no usual Event. Both are
multiplied by --headroom. Limits that namespaces or controllers share are large enough
for one more of those without limits of their own. So if one of them storms, the others
still get tokens.

More than 600 Events a minute of one type, by one controller in one namespace, are a storm
if they are five times what most of them write. In the whole cluster, a storm is more than
1,000 Events a minute that are also five times the quieter minutes of the busiest hour, or
15 for each node. No limit is sized for a storm. --expected exempts a namespace or
controller.

Quotas count only Events that policies have not merged or dropped. So the recording is
first decided by the policies of --policies or --kubeconfig, or by default by those of
the default installation.`,
		Example: `  kubectl get events -A --watch --output-watch-events -o json > events.json # an hour or more
  eventquota recommend events.json
  eventquota recommend events.json -o yaml > quotas.yaml
  eventquota recommend --kubeconfig ~/.kube/config
  eventquota recommend audit-*.log.gz --expected ci/kubelet,ci/job-controller`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(args); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.recommend(ctx, cmd, args)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&o.Headroom, "headroom", o.Headroom, "factor by which limits exceed the need of usual Events, from 1 to 100")
	f.StringSliceVar(&o.Expected, "expected", o.Expected, "writers whose Events are never a storm: NAMESPACE, NAMESPACE/CONTROLLER or /CONTROLLER")
	f.StringSliceVar(&o.Paths, "policies", o.Paths, "files, or directories of .yaml, .yml and .json files, with the policies that merge Events before quotas count them, instead of those of the default installation")
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file of a cluster whose policies are used instead, and whose Events are read if there is no FILE")
	o.AddFlags(cmd)
	output.AddChoiceFlag(cmd, &o.Output, "output", "o", []string{output.Table, output.YAML, output.JSON}, "format: table, yaml for the quotas to apply, or json")
	output.RefuseEmpty(f, "policies", "kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("policies", "kubeconfig")
	return cmd
}

func (o *options) validate(files []string) error {
	live := o.Kubeconfig != "" && len(files) == 0
	switch {
	case !live && (len(files) > 0) == (o.Sample != ""), live && o.Sample != "":
		return errors.New("recommend: either name files (- is standard input) or set --kubeconfig or --sample")
	case !(o.Headroom >= minHeadroom && o.Headroom <= maxHeadroom): // false for NaN
		return fmt.Errorf("--headroom %v: must be from %d to %d", o.Headroom, minHeadroom, maxHeadroom)
	}
	for _, value := range o.Expected {
		if _, ok := parseExpected(value); !ok {
			return fmt.Errorf("--expected %q: must be NAMESPACE, NAMESPACE/CONTROLLER or /CONTROLLER", value)
		}
	}
	return o.Validate()
}
