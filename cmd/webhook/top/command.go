// Package top is the command that shows who and what makes the most Event writes.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
)

// options are the flags of top.
type options struct {
	Replicas replicas.Options
	By       string // a busiest.By
	Sort     string
	Interval time.Duration
	Limit    int
	Output   string
	Once     bool
}

func defaultOptions() *options {
	return &options{
		Replicas: replicas.NewOptions(),
		By:       string(busiest.Source), Sort: "total", Interval: 2 * time.Second, Limit: 20, Output: output.Table,
	}
}

func (o *options) validate() error {
	errs := []error{o.Replicas.Validate()}
	if o.Interval < time.Second || o.Interval > time.Hour {
		errs = append(errs, fmt.Errorf("--interval %s: must be from 1s to 1h", o.Interval))
	}
	if o.Limit < 1 || o.Limit > 1000 {
		errs = append(errs, fmt.Errorf("--limit %d: must be from 1 to 1000", o.Limit))
	}
	return errors.Join(errs...)
}

// sortNames are what --sort takes, in the order of the columns.
func sortNames() []string { return []string{"admitted", "merged", "dropped", "total", "rate"} }

// Command is eventquota top.
func Command() *cobra.Command {
	o := defaultOptions()
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show who and what makes the most Event writes",
		Long: `Top shows which namespaces, sources, objects, reasons and policies have the most Event
writes, over all replicas, and what became of them.

It asks one replica, which answers for all that share its Redis, or for itself
without one. It finds one in the cluster of your kubeconfig, forwards a port to it
and gets a token of the service account that may read metrics: you need the rights
to list validatingwebhookconfigurations and, in the namespace of eventquota, to get
services, list pods, get and create pods/portforward, and create serviceaccounts/token.
--endpoint names one instead.

A replica counts while it runs, and is shown for five minutes after its end. Totals
are exact. It follows 256 of each kind, shared out by namespace: the busiest are among
them, and where there are more, a line below says how much counts may lack. Rates are
those of the last ten seconds or so; audited policies are not counted.

On a terminal it shows the table anew each --interval, with no more rows than fit,
until it is interrupted. Anywhere else it prints a table each --interval, without
escape codes.`,
		Example: `  eventquota top --by object --sort dropped
  kubectl eventquota top --context prod --once -o wide
  eventquota top --endpoint https://10.0.3.7:8443 --endpoint-token-file token --endpoint-ca-file ca.crt
  eventquota top --endpoint http://127.0.0.1:8080 --once -o json | jq .rows`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			if err := o.run(ctx, cmd); err != nil {
				return fmt.Errorf("top: %w", err)
			}
			return nil
		},
	}
	var byNames []string
	for _, by := range busiest.All() {
		byNames = append(byNames, string(by))
	}
	f := cmd.Flags()
	o.Replicas.AddFlags(f, false)
	output.OneOf(cmd, &o.By, "by", "", byNames, "what is shown: "+strings.Join(byNames, ", "))
	output.OneOf(cmd, &o.Sort, "sort", "", sortNames(), "column to sort by, the highest first: "+strings.Join(sortNames(), ", "))
	f.DurationVar(&o.Interval, "interval", o.Interval, "time between two looks, from 1s to 1h; replicas report their counts every 2s")
	f.IntVar(&o.Limit, "limit", o.Limit, "rows to show, from 1 to 1000; a terminal may have place for fewer")
	output.OneOf(cmd, &o.Output, "output", "o", output.Formats(), "format: table; wide for what counts may lack too; json for a line each time, yaml, or name")
	f.BoolVar(&o.Once, "once", o.Once, "print once, after as many looks as rates need, and exit")
	return cmd
}

// looksForRates is after how many looks --once prints without rates.
const looksForRates = 3

// run looks once each interval and prints what it sees, until ctx ends. A look that fails ends it if it is the first,
// or with --once; otherwise it is only reported.
func (o *options) run(ctx context.Context, cmd *cobra.Command) error {
	replica, err := o.Replicas.Open(ctx, "eventquota-top")
	if err != nil {
		return err
	}
	defer replica.Close()
	var seen looks
	tick := time.Tick(o.Interval)
	for n := 1; ; n++ {
		var sum busiest.Sum
		switch err := replica.Get(ctx, "/busiest", nil, &sum); {
		case ctx.Err() != nil:
			return nil
		case err != nil && (n == 1 || o.Once):
			return err
		case err != nil:
			fmt.Fprintln(cmd.ErrOrStderr(), "eventquota: top:", text.Visible(err.Error()))
		default:
			seen = seen.add(sum)
			if o.Once && len(seen) == 1 && n < looksForRates {
				break
			}
			if err := o.print(cmd.OutOrStdout(), seen, n > 1); err != nil || o.Once {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
	}
}

// clearScreen moves a terminal's cursor to its first line and erases what it shows.
const clearScreen = "\x1b[H\x1b[2J"

// print prints the latest of looks. On a terminal a table takes the place of the one before; anywhere else an empty
// line is between them.
func (o *options) print(w io.Writer, seen looks, again bool) error {
	t := seen.show(busiest.By(o.By), o.Sort, o.Limit)
	if done, err := output.Write(w, o.Output, t, ""); done {
		return err
	}
	var page strings.Builder
	if o.Output == output.Name {
		for _, r := range t.Rows {
			fmt.Fprintln(&page, text.Visible(r.Name))
		}
	} else {
		width, height := 0, 0
		if !o.Once {
			width, height = terminalSize(w)
		}
		switch {
		case height > 0:
			page.WriteString(clearScreen)
		case again && !o.Once:
			page.WriteString("\n")
		}
		page.WriteString(t.page(o.Output == output.Wide, width, height))
	}
	if _, err := io.WriteString(w, page.String()); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// terminalSize is the size of the terminal that w is, 0 if it is none.
func terminalSize(w io.Writer) (width, height int) {
	if file, ok := w.(*os.File); ok {
		width, height, _ = term.GetSize(int(file.Fd())) // which are 0 if it fails
	}
	return width, height
}
