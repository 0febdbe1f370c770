// Package top is the command that shows who and what makes the most Event writes.
package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/eventquota/eventquota/admission/busiest"
)

// Command is webhook top.
func Command() *cobra.Command {
	o := defaultOptions()
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show who and what makes the most Event writes",
		Long: `Top shows which namespaces, sources, objects, reasons and policies have the most Event
writes, over all replicas, and what became of them.

It reads what replicas tell each other in Redis, by the --redis- flags of serve,
or asks one replica at its metrics address, by --endpoint: that one answers for
all that share its Redis, or for itself without one.

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
		Example: `  webhook top --redis-addresses redis:6379 --by object --sort dropped
  webhook top --endpoint https://10.0.3.7:8443 --endpoint-token-file token --endpoint-ca-file ca.crt
  webhook top --endpoint http://127.0.0.1:8080 --once -o json | jq .rows`,
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
	return cmd
}

// top shows what it reads until ctx ends. That what it reads from answers once is
// seen before it begins.
func (o *options) top(ctx context.Context, cmd *cobra.Command) error {
	read, closes, err := o.reader()
	if err != nil {
		return err
	}
	defer closes()
	first, err := read(ctx)
	if err != nil {
		return err
	}
	var by busiest.By
	if err := by.UnmarshalText([]byte(o.By)); err != nil {
		return err
	}
	v := view{looks: looks(nil).add(first), by: by, sort: o.Sort, limit: o.Limit}
	if o.Output == "table" && !o.Once && isTerminal(cmd.InOrStdin()) && isTerminal(cmd.OutOrStdout()) {
		screen, err := newScreen()
		if err != nil {
			return err
		}
		v.live(ctx, screen, lookEvery(ctx, read, o.Interval))
		return nil
	}
	return o.print(ctx, cmd, v, lookEvery(ctx, read, o.Interval))
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
				fmt.Fprintln(cmd.ErrOrStderr(), "webhook: top:", v.failed)
			}
		}
	}
}

func (o *options) printOne(w io.Writer, v view, n int) error {
	s := v.looks.show(v.by, v.sort, v.limit)
	if o.Output == "json" {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return e.Encode(s)
	}
	lines := append([]string{s.head()}, columns(s.cells(), 0)...)
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
