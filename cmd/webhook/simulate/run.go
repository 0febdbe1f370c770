package simulate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/simulate/page"
	"github.com/eventquota/eventquota/cmd/webhook/simulate/report"
)

// simulate reads the files, runs each set of policies and prints what became of it.
func (o *options) simulate(ctx context.Context, cmd *cobra.Command, files []string) error {
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
	r := report.Report{Input: trace.Input}
	if trace.Input.Most == 0 {
		bar.clear()
		r.WriteInput(cmd.ErrOrStderr())
		return errors.New("simulate: there are no Event writes in the input")
	}
	bounds := map[simulate.Bound]string{simulate.Most: ""}
	if trace.Input.Fewest < trace.Input.Most {
		bounds = map[simulate.Bound]string{simulate.Most: "most", simulate.Fewest: "fewest"}
	}
	for i, set := range sets {
		for bound := range simulate.Bound(len(bounds)) {
			run := report.Run{Under: set.name, Writes: bounds[bound]}
			if run.Result, err = o.run(ctx, trace, set, bound, i == 0 && bound == simulate.Most, bar); err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			r.Runs = append(r.Runs, run)
		}
	}
	bar.clear()
	if err := o.write(cmd.OutOrStdout(), &r); err != nil {
		return fmt.Errorf("simulate: write the report: %w", err)
	}
	return o.failure(&r)
}

// write writes the report in the format that was asked for.
func (o *options) write(w io.Writer, r *report.Report) error {
	switch o.Output {
	case "html":
		return page.Write(w, r)
	case "json":
		return r.WriteJSON(w)
	}
	r.WriteText(w)
	return nil
}

// run runs one set of policies. Of the first run, the decisions are written down.
func (o *options) run(ctx context.Context, trace *simulate.Trace, set policySet, bound simulate.Bound, first bool, bar *progressBar) (*simulate.Result, error) {
	opts := simulate.Options{
		Policies: set.policies, Bound: bound, StoreBytes: o.StoreMemory.Value(), EventTTL: o.EventTTL, Progress: bar.deciding,
	}
	if !first || o.Decisions == "" {
		return trace.Run(ctx, opts)
	}
	file, err := os.Create(o.Decisions)
	if err != nil {
		return nil, fmt.Errorf("--decisions: %w", err)
	}
	decided, end := decisionsTo(file)
	opts.Decided = decided
	result, err := trace.Run(ctx, opts)
	if err := end(); err != nil {
		return nil, fmt.Errorf("--decisions: %w", err)
	}
	return result, err
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
