// Package top is the command that shows who and what makes the most Event writes.
package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/text"
)

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

A replica counts from its start to its end, and is shown for five minutes more.
Totals are exact. Of each kind it follows 256: the busiest are always among them,
and where there are more, a line below says what counts may lack. Rates are those
of the last ten seconds or so; audited policies are not counted.

On a terminal it is a live view, in which these keys work:

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
			if err := o.top(ctx, cmd); err != nil {
				return fmt.Errorf("top: %w", err)
			}
			return nil
		},
	}
	o.addFlags(cmd.Flags())
	output.Complete(cmd, "by", byNames())
	output.Complete(cmd, "sort", sortNames())
	output.Complete(cmd, "output", output.Names())
	return cmd
}

// top shows what it reads until ctx ends. That what it reads from answers once is
// seen before it begins.
func (o *options) top(ctx context.Context, cmd *cobra.Command) error {
	replica, err := o.Replicas.Open(ctx, "eventquota-top")
	if err != nil {
		return err
	}
	defer replica.Close()
	first := ask(ctx, replica)
	if first.err != nil {
		return first.err
	}
	var by busiest.By
	if err := by.UnmarshalText([]byte(o.By)); err != nil {
		return err
	}
	v := view{looks: looks(nil).add(first.sum), by: by, sort: o.Sort, limit: o.Limit}
	if o.Output == output.Table && !o.Once && isTerminal(cmd.InOrStdin()) && isTerminal(cmd.OutOrStdout()) {
		screen, err := newScreen()
		if err != nil {
			return err
		}
		v.live(ctx, screen, askEvery(ctx, replica, o.Interval))
		return nil
	}
	return o.print(ctx, cmd, v, askEvery(ctx, replica, o.Interval))
}

// looksForRates is after how many looks --once gives up on rates.
const looksForRates = 3

// print prints the first look and each that comes. A failure to look ends it with
// --once, and is told else.
func (o *options) print(ctx context.Context, cmd *cobra.Command, v view, next <-chan look) error {
	for n := 1; ; n++ {
		if v.failed == nil && (!o.Once || len(v.looks) > 1 || n == looksForRates) {
			if err := o.printOne(cmd.OutOrStdout(), v, n); err != nil {
				return err
			}
			if o.Once {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case l := <-next:
			if l.err != nil && o.Once {
				return l.err
			}
			if v = v.look(l); v.failed != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "eventquota: top:", v.failed)
			}
		}
	}
}

func (o *options) printOne(w io.Writer, v view, n int) error {
	s := v.looks.show(v.by, v.sort, v.limit)
	if done, err := o.Output.Write(w, s, ""); done {
		return err
	}
	if o.Output == output.Name {
		for _, r := range s.Rows {
			if _, err := fmt.Fprintln(w, text.Visible(r.Name)); err != nil {
				return fmt.Errorf("write the names: %w", err)
			}
		}
		return nil
	}
	lines := append([]string{s.head()}, columns(s.cells(o.Output == output.Wide), 0)...)
	if foot := s.foot(); foot != "" {
		lines = append(lines, foot)
	}
	if n > 1 && !o.Once {
		lines = append([]string{""}, lines...)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
	}
	return nil
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
