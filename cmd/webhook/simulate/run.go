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

// simulate reads the files, runs each set of policies and prints what became of it.
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
	trace, err := bar.ReadTrace(ctx, sources, o.ExemptUsers)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	defer trace.Close()
	defer replay.LimitMemory(trace.Input.Entries)()
	r := report.Report{Input: trace.Input}
	if trace.Input.Most == 0 {
		return errors.Join(r.WriteInput(cmd.ErrOrStderr()), fmt.Errorf("simulate: %w", replay.ErrNoWrites(&trace.Input)))
	}
	out := bufio.NewWriter(cmd.OutOrStdout()) // which keeps its first error for Flush
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
			run := report.Run{Set: set.Name, Bound: bound, Excluded: set.Excluded}
			if run.Result, err = trace.Run(ctx, opts); err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			r.Runs = append(r.Runs, run)
			opts.Decided = nil // those of the first run are enough
		}
	}
	bar.End()
	if err := errors.Join(o.write(out, &r), out.Flush()); err != nil {
		return fmt.Errorf("simulate: write the report: %w", err)
	}
	return nil
}

// decisionWriter is where lines go while writes are decided; nil for nowhere.
func (o *options) decisionWriter(cmd *cobra.Command) io.Writer {
	if o.Output == formatDecisions {
		return cmd.OutOrStdout()
	}
	return nil
}

// sets are the sets of policies that the flags ask for, the one to judge first.
func (o *options) sets(ctx context.Context) ([]*replay.Set, error) {
	first, err := o.Set(ctx, o.Sample != "") // there is no cluster whose policies are known
	if err != nil || len(o.Compare) == 0 {
		return []*replay.Set{first}, err
	}
	second, err := replay.ReadSet("compare", o.Compare)
	if err != nil {
		return nil, err
	}
	second.UseNamespacesOf(first.Rules) // they are not what is compared
	return []*replay.Set{first, second}, nil
}

// write writes the report in the format that was asked for.
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
