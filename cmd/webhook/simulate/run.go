package simulate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/replay"
	"github.com/eventquota/eventquota/cmd/webhook/simulate/report"
)

// simulate reads the files, runs each set of policies on them and prints the report.
func (o *options) simulate(ctx context.Context, cmd *cobra.Command, files []string) error {
	defer replay.LimitMemory(0)()
	sets, err := o.sets(ctx)
	if err != nil {
		return err
	}
	for _, set := range sets {
		for _, note := range set.Unrelated.Notes() {
			fmt.Fprintln(cmd.ErrOrStderr(), text.Sanitize("note: "+note))
		}
	}
	sources, err := o.Sources(cmd.InOrStdin(), files)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	bar := replay.NewProgress(cmd.ErrOrStderr(), o.decisionWriter(cmd))
	defer bar.End()
	trace, err := bar.ReadTrace(ctx, sources, o.Exempt)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	defer trace.Close()
	defer replay.LimitMemory(trace.Input.Entries)()
	r := report.Report{Input: trace.Input}
	if trace.Input.Most == 0 {
		return errors.Join(r.WriteInput(cmd.ErrOrStderr()), fmt.Errorf("simulate: %w", replay.ErrNoWrites(&trace.Input)))
	}
	out := bufio.NewWriter(cmd.OutOrStdout()) // keeps its first error for Flush
	opts := simulate.Options{EventTTL: o.EventTTL, Progress: bar.Add}
	if o.Output == formatDecisions {
		lines := json.NewEncoder(text.JSON(out))
		lines.SetEscapeHTML(false)
		opts.Decided = func(d simulate.Decision) { _ = lines.Encode(d) }
	}
	for _, set := range sets {
		for _, bound := range trace.Input.Bounds() {
			opts.Rules, opts.Bound = set.ForSimulation(), bound
			bar.Begin("deciding", trace.Input.Writes(bound), false)
			run := report.Run{Policies: set.Name, Bound: bound, Excluded: set.Excluded}
			if run.Result, err = trace.Run(ctx, opts); err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			r.Runs = append(r.Runs, run)
			opts.Decided = nil // -o decisions prints the first run only
		}
	}
	bar.End()
	if err := errors.Join(o.write(out, &r), out.Flush()); err != nil {
		return fmt.Errorf("simulate: write the report: %w", err)
	}
	return nil
}

// decisionWriter returns the output that decisions are printed to during a run, or nil if they are not printed.
func (o *options) decisionWriter(cmd *cobra.Command) io.Writer {
	if o.Output == formatDecisions {
		return cmd.OutOrStdout()
	}
	return nil
}

// sets returns the sets of policies that the flags select. The first is the subject, and the second is that of --compare.
func (o *options) sets(ctx context.Context) ([]*replay.Set, error) {
	first, err := o.Set(ctx)
	if err != nil || len(o.Compare) == 0 {
		return []*replay.Set{first}, err
	}
	second, err := replay.ReadSet("compare", o.Compare)
	if err != nil {
		return nil, err
	}
	second.UseNamespacesOf(first.Rules) // only rules are compared
	return []*replay.Set{first, second}, nil
}

// write writes the report in the format of --output. Decisions have already been written.
func (o *options) write(w io.Writer, r *report.Report) error {
	switch o.Output {
	case formatHTML:
		return r.WritePage(w)
	case output.JSON:
		_, err := output.Write(w, output.JSON, r)
		return err
	case output.Table:
		return r.WriteText(w)
	}
	return nil
}
