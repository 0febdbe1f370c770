package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/admission/simulate"
)

// memoryLimit is where the garbage collector begins to work harder, in bytes. What
// is in use may be more.
const memoryLimit = 128 << 20

func simulateCommand() *cobra.Command {
	o := defaultSimulateOptions()
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

An audit log is exact: it has every request, its user and its time. In a watch,
what was added is taken for a CREATE, and what was modified for an UPDATE at the
time of its last occurrence. An Event of a list, or in a line of its own, tells of
a whole story: one of count n is taken for n writes, as a recorder makes them,
spread evenly from its first occurrence to its last (those of events.k8s.io for 3
at most). What has expired is not in it, and nobody knows the users.

Where an Event that a recorder updates would not have been stored, the recorder
creates it with the count so far. Policies and labels are in force from the
beginning to the end. One replica with its state in memory is simulated.

Memory holds 40 bytes of each Event; the Events are in a temporary file in
$TMPDIR meanwhile. Lines that cannot be read are counted, and do not stop it.

It exits with 1 when it fails, and with 2 when it succeeds and --fail-on names
something that has come about.`,
		Example: `  kubectl get events -A -o json | webhook simulate - --policies policies/
  webhook simulate audit.log audit-*.log.gz --policies new.yaml --compare old.yaml
  webhook simulate audit.log --kubeconfig ~/.kube/config --fail-on warning-dropped`,
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
	return cmd
}

// simulate reads the files, runs each set of policies and prints what became of it.
func (o *simulateOptions) simulate(ctx context.Context, cmd *cobra.Command, files []string) error {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	sets, err := o.sets(ctx)
	if err != nil {
		return err
	}
	bar := newProgressBar(cmd.ErrOrStderr())
	defer bar.clear()
	trace, err := simulate.Read(ctx, bar.sources(files, cmd.InOrStdin()), simulate.ReadOptions{Exempt: o.ExemptUsers})
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	defer trace.Close()
	report := simulation{Input: trace.Input}
	if trace.Input.Writes == 0 {
		bar.clear()
		report.printInput(cmd.ErrOrStderr())
		return errors.New("simulate: there are no Event writes in the input")
	}
	for i, set := range sets {
		ran, err := o.run(ctx, trace, set, i == 0, bar)
		if err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
		report.Runs = append(report.Runs, *ran)
	}
	bar.clear()
	if err := report.write(cmd.OutOrStdout(), o.Output); err != nil {
		return fmt.Errorf("simulate: write the report: %w", err)
	}
	return o.failure(&report)
}

// run runs one set of policies. Of the first, the decisions are told.
func (o *simulateOptions) run(ctx context.Context, trace *simulate.Trace, set policySet, first bool, bar *progressBar) (ran *ran, err error) {
	opts := simulate.DefaultOptions(set.policies)
	opts.StoreBytes, opts.EventTTL = o.StoreMemory.Value(), o.EventTTL
	opts.Progress = bar.deciding
	if first && o.Decisions != "" {
		file, err := os.Create(o.Decisions)
		if err != nil {
			return nil, fmt.Errorf("--decisions: %w", err)
		}
		told, end := decisionsTo(file)
		opts.Decided = told
		ran, err := o.runWith(ctx, trace, set, opts)
		if err := end(); err != nil {
			return nil, fmt.Errorf("--decisions: %w", err)
		}
		return ran, err
	}
	return o.runWith(ctx, trace, set, opts)
}

func (*simulateOptions) runWith(ctx context.Context, trace *simulate.Trace, set policySet, opts simulate.Options) (*ran, error) {
	result, err := trace.Run(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &ran{Policies: set.name, Result: result}, nil
}

// decisionsTo writes each decision as a line of JSON. end closes w and says what
// has failed.
func decisionsTo(w io.WriteCloser) (told func(simulate.Decision), end func() error) {
	var failed error
	buffer := bufio.NewWriterSize(w, 64<<10)
	lines := json.NewEncoder(buffer)
	lines.SetEscapeHTML(false)
	return func(d simulate.Decision) {
			if failed == nil {
				failed = lines.Encode(d)
			}
		}, func() error {
			return errors.Join(failed, buffer.Flush(), w.Close())
		}
}
