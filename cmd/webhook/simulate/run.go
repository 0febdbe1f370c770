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
func (o *options) run(ctx context.Context, trace *simulate.Trace, set policySet, first bool, bar *progressBar) (ran *ran, err error) {
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

func (*options) runWith(ctx context.Context, trace *simulate.Trace, set policySet, opts simulate.Options) (*ran, error) {
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
