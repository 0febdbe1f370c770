// Package recommend is the command that sizes quotas by recorded Events.
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

// The most and the least that --headroom takes. Half as much again is the default.
const minHeadroom, defaultHeadroom, maxHeadroom = 1, 1.5, 100

// Command is eventquota recommend.
func Command() *cobra.Command {
	o := &options{Recordings: replay.NewRecordings(), Headroom: defaultHeadroom, Output: output.Table}
	cmd := &cobra.Command{
		Use:   "recommend {FILE... | --kubeconfig FILE | --sample KIND}",
		Short: "Size quotas by recorded Events",
		Long: `Recommend sizes quotas by Events that were recorded, or that a cluster stores now: large
enough to refuse nothing of what is usual in them, and small enough to bound a storm.
It shows what each number is based on, then simulates the quotas on the same Events.

FILE is a recording in any form that eventquota simulate reads, a directory, or - for
standard input. With --kubeconfig and without a FILE, the Events that the cluster stores
are read: those written in the last hour, unless its API server keeps them longer.

It proposes a quota for Normal Events and one for Warnings. Each limits how many are stored

  of each namespace, controller and reason
  of each namespace
  of each controller
  in all

and up to 8 namespaces and 8 controllers that need at least twice the least have limits of
their own. A limit refills at the average rate of its busiest bucket in that bucket's
busiest hour. Its burst is the smallest that would have refused no usual Event. Both are
multiplied by --headroom. Limits that namespaces or controllers share have room for one
more of those without limits of their own, so its storm leaves the others their tokens.

More than 600 Events a minute of one type, by one controller in one namespace, are a storm
if they are five times what most write. More than 1,000 a minute in all are one if they are
five times what the cluster writes in the quieter minutes of its busiest hour, or 15 for
each node. No limit is sized for a storm. --expected exempts a namespace or controller.

Quotas count only what policies have not merged or dropped. So the recording is decided
first by the policies of --policies or --kubeconfig, or by those of every installation.`,
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
	f.Float64Var(&o.Headroom, "headroom", o.Headroom, "factor by which limits exceed what usual Events needed, from 1 to 100")
	f.StringSliceVar(&o.Expected, "expected", o.Expected, "never taken for a storm, however much it writes: NAMESPACE, NAMESPACE/CONTROLLER or /CONTROLLER")
	f.StringSliceVar(&o.Paths, "policies", o.Paths, "files, or directories of .yaml, .yml and .json files, with the policies that merge Events before quotas count them; default is those of every installation")
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file of a cluster whose policies are taken instead, and whose Events where no FILE is given")
	o.AddFlags(cmd)
	output.AddChoiceFlag(cmd, &o.Output, "output", "o", []string{output.Table, output.YAML, output.JSON}, "format: table, yaml for the quotas to apply, or json")
	cmd.MarkFlagsMutuallyExclusive("policies", "kubeconfig")
	return cmd
}

func (o *options) validate(files []string) error {
	live := o.Kubeconfig != "" && len(files) == 0
	switch {
	case !live && (len(files) > 0) == (o.Sample != ""), live && o.Sample != "":
		return errors.New("recommend: must be given files, - for standard input, --kubeconfig or --sample")
	case !(o.Headroom >= minHeadroom && o.Headroom <= maxHeadroom): // nor is it NaN
		return fmt.Errorf("--headroom %v: must be from %d to %d", o.Headroom, minHeadroom, maxHeadroom)
	}
	for _, one := range o.Expected {
		if _, ok := parseExpected(one); !ok {
			return fmt.Errorf("--expected %q: must be NAMESPACE, NAMESPACE/CONTROLLER or /CONTROLLER", one)
		}
	}
	return o.Validate()
}
