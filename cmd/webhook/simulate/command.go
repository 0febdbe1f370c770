// Package simulate is the command that says what policies and quotas would have done with recorded Events.
package simulate

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/admission/simulate/sample"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/simulate/report"
	"github.com/eventquota/eventquota/store/memory"
)

// options are the flags.
type options struct {
	Policies    []string
	Kubeconfig  string
	Compare     []string
	Output      string
	FailOn      []string
	ExemptUsers []string
	StoreMemory resource.QuantityValue
	EventTTL    time.Duration
	Sample      sample.Options
}

// Command is eventquota simulate.
func Command() *cobra.Command {
	o := &options{
		Output:      output.Table,
		ExemptUsers: []string{"system:serviceaccount:eventquota-system:eventquota"},
		StoreMemory: resource.QuantityValue{Quantity: *resource.NewQuantity(memory.DefaultBytes, resource.BinarySI)},
		EventTTL:    time.Hour,
		Sample:      sample.Options{Seed: 1},
	}
	cmd := &cobra.Command{
		Use:   "simulate {FILE... | --sample KIND}",
		Short: "Say what policies and quotas would have done with recorded Events",
		Long: `Simulate reads Events that were recorded and decides each as the webhook would
have, on their time stamps. It says what would have been admitted, merged and
dropped, by which policy or quota, and how many writes to etcd are left.

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

Without a recording, --sample makes one, the same for each --sample-seed:

  churn    50,000 pods are killed and replaced in five minutes: 145,259 Events, each
           about another pod or of another reason, as in kubernetes/kubernetes#141022
  narrow   an operator that merges nothing repeats itself: 20 objects, 60,000 Events
  probes   the readiness probes of 500 pods fail for ten minutes
  quiet    a cluster without a storm, of 100 nodes unless --sample-nodes says otherwise:
           each starts and stops 6 pods an hour, and each 1,000 nodes or fewer roll out 50
           pods every five minutes

It says which policies, quotas and limits applied to none of the Events, and why; and
which conditions failed.

Where an Event that a recorder updates would not have been stored, the recorder
creates it with the count so far. Policies, quotas and labels are in force from the
beginning to the end. One replica with its state in memory is simulated.

Meanwhile the Events are in a temporary file in $TMPDIR; memory holds 16 bytes of each.
Lines that cannot be read are counted, and do not stop it.

It exits with 1 when it fails, and with 2 when it succeeds and --fail-on names
something that happened.`,
		Example: `  eventquota simulate --sample churn --policies policies/
  kubectl get events -A -o json | eventquota simulate - --policies policies/
  eventquota simulate audit.log audit-*.log.gz --policies new.yaml --compare old.yaml
  eventquota simulate audit.log --kubeconfig ~/.kube/config --fail-on warning-dropped`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && o.Sample.Kind == "" {
				return errors.New("simulate: must be given files, - for standard input, or --sample")
			}
			if len(args) > 0 && o.Sample.Kind != "" {
				return errors.New("simulate: must not be given files with --sample")
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
	output.OneOf(cmd, &o.Output, "output", "o", []string{output.Table, output.JSON, html, decisions},
		"format: table, json, html for a page that needs nothing else, or decisions for a line of JSON about each write")
	output.Complete(cmd, "sample", sample.Kinds())
	output.Complete(cmd, "fail-on", failureNames())
	return cmd
}

func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.Policies, "policies", o.Policies, "files, or directories of .yaml, .yml and .json files, with policies and quotas, and with the Namespaces that they select by label; none for the built-in default")
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file of a cluster whose policies, quotas and namespaces are taken instead")
	f.StringSliceVar(&o.Compare, "compare", o.Compare, "a second set of policies and quotas, like --policies, whose figures are shown beside; or default for the built-in default")
	f.StringSliceVar(&o.FailOn, "fail-on", o.FailOn, "what makes the exit code 2, if it happens at least once: "+strings.Join(failureNames(), ", ")+"; not by --compare")
	f.StringSliceVar(&o.ExemptUsers, "exempt-users", o.ExemptUsers, "users whose requests the webhook is not asked about, in an audit log")
	f.Var(&o.StoreMemory, "store-memory", "memory that the simulated store may use, in bytes, at least 1Mi, as --store-memory of serve")
	f.StringVar(&o.Sample.Kind, "sample", o.Sample.Kind, "recording to make instead of reading one: "+strings.Join(sample.Kinds(), ", "))
	f.Uint64Var(&o.Sample.Seed, "sample-seed", o.Sample.Seed, "what the times of --sample depend on")
	f.IntVar(&o.Sample.Objects, "sample-objects", o.Sample.Objects, "how many objects --sample is about, except quiet; 0 for the default of its kind")
	f.IntVar(&o.Sample.Nodes, "sample-nodes", o.Sample.Nodes, "how many nodes --sample has; 0 for the default of its kind")
	f.DurationVar(&o.Sample.Duration, "sample-duration", o.Sample.Duration, "how long --sample takes; 0s for the default of its kind")
	f.DurationVar(&o.EventTTL, "event-ttl", o.EventTTL, "how long the API server keeps an Event after its last write, at least 1s")
}

func (o *options) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(o.Policies) == 0 || o.Kubeconfig == "", "--kubeconfig: must not be set with --policies")
	check(o.StoreMemory.Value() >= memory.MinBytes, "--store-memory %s: must be at least 1Mi", &o.StoreMemory)
	check(o.EventTTL >= time.Second, "--event-ttl %s: must be at least 1s", o.EventTTL)
	for _, name := range o.FailOn {
		check(slices.Contains(failureNames(), name), "--fail-on %q: must be of %s", name, strings.Join(failureNames(), ", "))
	}
	return errors.Join(errs...)
}

// The formats of --output that other commands do not have.
const (
	html      = "html"
	decisions = "decisions"
)

// failureNames are what --fail-on takes.
func failureNames() []string {
	return []string{"warning-dropped", "dropped", "undecided", "broken-line"}
}

// failure says which of --fail-on have happened, or is nil.
func (o *options) failure(of *report.Report) error {
	r := of.Runs[0].Result
	seen := map[string]int64{
		"warning-dropped": r.WarningsDropped,
		"dropped":         r.Outcomes[admission.Dropped],
		"undecided":       r.Outcomes[admission.Undecided] + r.Outcomes[admission.Overloaded] + r.Outcomes[simulate.Unknown],
		"broken-line":     of.Input.Broken,
	}
	var found []string
	for _, name := range o.FailOn {
		if seen[name] > 0 {
			found = append(found, fmt.Sprintf("%s: %d", name, seen[name]))
		}
	}
	if len(found) == 0 {
		return nil
	}
	return foundError{"simulate: --fail-on " + strings.Join(found, ", ")}
}

// foundError ends a command that found what it was asked to look for.
type foundError struct{ message string }

func (e foundError) Error() string { return e.message }

// ExitCode distinguishes it from a failure.
func (foundError) ExitCode() int { return 2 }
