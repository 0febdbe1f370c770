// Package top is the command that shows who and what makes the most Event writes.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
)

// options are the flags of top.
type options struct {
	Replicas *replicas.Options
	By       string // a busiest.By
	Sort     string
	Interval time.Duration
	Limit    int
	Output   string
}

func (o *options) validate() error {
	var errs []error
	if o.Interval != 0 && (o.Interval < 2*time.Second || o.Interval > time.Hour) {
		errs = append(errs, fmt.Errorf("--interval %s: must be 0, or from 2s to 1h", o.Interval))
	}
	if o.Limit < 1 || o.Limit > 1000 {
		errs = append(errs, fmt.Errorf("--limit %d: must be from 1 to 1000", o.Limit))
	}
	return errors.Join(errs...)
}

// sortNames are what --sort takes, in the order of the columns.
func sortNames() []string { return []string{"admitted", "merged", "dropped", "total"} }

// Command is eventquota top.
func Command() *cobra.Command {
	o := &options{By: string(busiest.Source), Sort: "total", Output: output.Table}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show who and what makes the most Event writes",
		Long: `Top shows which namespaces, sources, objects, reasons and policies have the most Event
writes, over all replicas, and what became of them: those within --interval or, with
--interval 0, all since the replicas began to count.

It asks one replica, which answers for all that share its Redis, or for itself
without one. It finds one in the cluster of your kubeconfig, forwards a port to it
and gets a token of the service account that may read metrics: you need the rights
to list validatingwebhookconfigurations and, in the namespace of eventquota, to get
services, list pods, get and create pods/portforward, and create serviceaccounts/token.

A replica counts while it runs, and is shown for five minutes after its end. Totals
have all writes that were decided. It follows 256 of each kind, shared out by
namespace: the busiest are among them, and where there are more, the first line says
how many writes are in no row. Audited policies are not counted.

It fails where replicas have come or gone within the interval. To look again and again,
use watch.`,
		Example: `  eventquota top --by object --sort dropped
  kubectl eventquota top --context prod --interval 10s
  watch kubectl eventquota top --by namespace
  eventquota top --endpoint http://127.0.0.1:8080 --interval 0 -o json | jq .rows`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if err := o.run(cmd.Context(), cmd.OutOrStdout()); err != nil {
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
	o.Replicas = replicas.AddFlags(f, false)
	output.OneOf(cmd, &o.By, "by", "", byNames, "what is shown: "+strings.Join(byNames, ", "))
	output.OneOf(cmd, &o.Sort, "sort", "", sortNames(), "column to sort by, the highest first: "+strings.Join(sortNames(), ", "))
	f.DurationVar(&o.Interval, "interval", 4*time.Second, "time within which writes are shown, from 2s to 1h, as replicas report their counts every 2s; 0 for all until now, at once")
	f.IntVar(&o.Limit, "limit", 20, "rows to show, from 1 to 1000")
	output.OneOf(cmd, &o.Output, "output", "o", output.Formats(), "format: "+strings.Join(output.Formats(), ", "))
	return cmd
}

// run asks a replica, once more after the interval, and prints what is busiest.
func (o *options) run(ctx context.Context, w io.Writer) error {
	replica, err := o.Replicas.Open(ctx)
	if err != nil {
		return err
	}
	defer replica.Close()
	var before, now *busiest.Sum
	if o.Interval > 0 {
		if err := replica.Get(ctx, "/busiest", nil, &before); err != nil {
			return err
		}
		select {
		case <-time.After(o.Interval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := replica.Get(ctx, "/busiest", nil, &now); err != nil {
		return err
	}
	t, err := o.table(before, now)
	if err != nil {
		return err
	}
	if err := t.write(w, o.Output); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}
