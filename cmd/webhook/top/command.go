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

On a terminal it is a live view with these keys:

  n s o e p  by namespace, source, object, reason or policy
  a m d t r  sort by admitted, merged, dropped, total or rate
  ?          help
  q          quit

Anywhere else it prints a table each --interval, without escape codes.`,
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
	output.OneOf(cmd, &o.Output, "output", "o", output.Formats(), "format: table, with a live view on a terminal; wide for what counts may lack too, json for a line each time, yaml, or name, without one")
	f.BoolVar(&o.Once, "once", o.Once, "print once, after as many looks as rates need, and exit")
	return cmd
}

// run shows what it reads until ctx ends. The first look must succeed.
func (o *options) run(ctx context.Context, cmd *cobra.Command) error {
	replica, err := o.Replicas.Open(ctx, "eventquota-top")
	if err != nil {
		return err
	}
	defer replica.Close()
	v := view{by: busiest.By(o.By), sort: o.Sort, limit: o.Limit}
	if v = v.look(ask(ctx, replica)); v.failed != nil {
		return v.failed
	}
	next := askEvery(ctx, replica, o.Interval)
	if o.Output == output.Table && !o.Once && isTerminal(cmd.InOrStdin()) && isTerminal(cmd.OutOrStdout()) {
		return v.show(ctx, next)
	}
	return o.print(ctx, cmd, v, next)
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// looksForRates is after how many looks --once prints without rates.
const looksForRates = 3

// print prints v, which has a look, and each look that comes. A failed look ends it with --once; otherwise it is
// only reported.
func (o *options) print(ctx context.Context, cmd *cobra.Command, v view, next <-chan look) error {
	for n := 1; ; n++ {
		if v.failed == nil && (!o.Once || len(v.looks) > 1 || n == looksForRates) {
			if err := o.printOne(cmd.OutOrStdout(), v, n); err != nil || o.Once {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case l := <-next:
			if v = v.look(l); v.failed == nil {
				continue
			}
			if o.Once {
				return v.failed
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "eventquota: top:", text.Visible(v.failed.Error()))
		}
	}
}

// printOne prints the nth look.
func (o *options) printOne(w io.Writer, v view, n int) error {
	s := v.looks.show(v.by, v.sort, v.limit)
	if done, err := output.Write(w, o.Output, s, ""); done {
		return err
	}
	var lines []string
	if o.Output == output.Name {
		for _, r := range s.Rows {
			lines = append(lines, text.Visible(r.Name))
		}
	} else {
		if n > 1 && !o.Once {
			lines = append(lines, "")
		}
		lines = append(append(lines, s.head()), columns(s.cells(o.Output == output.Wide), 0)...)
		if foot := s.foot(); foot != "" {
			lines = append(lines, foot)
		}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
	}
	return nil
}
