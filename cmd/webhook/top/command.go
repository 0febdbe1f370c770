// Package top is the command that shows the busiest writers of Events.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
	"github.com/eventquota/eventquota/cmd/webhook/brake"
	"github.com/eventquota/eventquota/cmd/webhook/explain"
	"github.com/eventquota/eventquota/cmd/webhook/live"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
	"github.com/eventquota/eventquota/cmd/webhook/top/screen"
)

// options are the flags of top.
type options struct {
	Replicas *replicas.Options
	By       string // a busiest.Dimension
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

// sortNames returns the values of --sort, in the order of the columns.
func sortNames() []string { return []string{"admitted", "merged", "dropped", "total"} }

// Command returns the command eventquota top.
func Command() *cobra.Command {
	o := &options{By: string(busiest.Source), Sort: "total", Output: output.Table}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show which sources and objects have the most Event writes",
		Long: `Top shows which namespaces, sources, objects, reasons and policies have the most Event
writes on all replicas, and how many of these were admitted, merged and dropped. On a
terminal it shows a live screen, also with the quotas, the emptiest first. From a
namespace it leads to its sources, from a source to its objects, and from an object to
the report of explain. It can also pull the emergency brake; ? shows the keys. In a
pipe, or with -o or --interval 0, it prints a table of the writes within --interval or,
with --interval 0, since the replicas began to count.

It asks one replica, which answers for all replicas that share its Redis, or only for
itself without Redis. It finds a replica in the cluster of your kubeconfig, forwards a
port to it, and gets a token of the service account that may read metrics. You need the
rights to list validatingwebhookconfigurations and, in the namespace of eventquota, to
get services, list pods, get and create pods/portforward, and create
serviceaccounts/token.

With --namespace it shows only that namespace. For that, users without those rights
need only two others: to create tokens of the service account eventquota-viewer there,
and to get services/proxy of https:eventquota:metrics in --system-namespace. The
service account must have the right to get eventquotas there. These users see nothing
of other namespaces, no cluster-scoped objects, and no quota buckets that other
namespaces use too. To open an object, you need the rights of explain.

A replica counts while it runs, and is shown for five minutes after it has stopped.
Totals include all decided writes. A replica tracks 256 rows of each kind and shares
them between namespaces: the busiest are among them. If there are more, the first line
says how many writes are in no row. Decisions of audited policies are not counted.

The table fails if replicas start or stop within the interval; the screen continues.`,
		Example: `  eventquota top
  kubectl eventquota top --namespace shop
  kubectl eventquota top --context prod --interval 10s -o table --by object --sort dropped
  eventquota top --endpoint http://127.0.0.1:8080 --interval 0 -o json | jq .rows`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var wrong error
			o.Replicas.Namespace, wrong = apiserver.ExplicitNamespace(cmd.Flag("namespace"))
			if err := errors.Join(wrong, o.validate()); err != nil {
				return err
			}
			given := cmd.Flags().Changed
			run := o.run
			if !given("output") && o.Interval > 0 && isInteractive(cmd.InOrStdin(), cmd.OutOrStdout()) {
				if !given("interval") {
					o.Interval = live.DefaultInterval
				}
				run = o.follow
			}
			if err := run(cmd.Context(), cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("top: %w", err)
			}
			return nil
		},
	}
	var byNames []string
	for _, by := range busiest.Dimensions() {
		byNames = append(byNames, string(by))
	}
	f := cmd.Flags()
	o.Replicas = replicas.AddFlags(f, true)
	f.Lookup("namespace").Usage = "the only namespace to show; default all, whatever the namespace of the kubeconfig"
	o.Replicas.AddSystemFlag(f)
	output.RefuseEmpty(f, "namespace", "endpoint")
	output.AddChoiceFlag(cmd, &o.By, "by", "", byNames, "kind of rows to show: "+strings.Join(byNames, ", "))
	output.AddChoiceFlag(cmd, &o.Sort, "sort", "", sortNames(), "column to sort by, the highest first: "+strings.Join(sortNames(), ", "))
	f.DurationVar(&o.Interval, "interval", 4*time.Second, "time over which the table counts writes, from 2s to 1h, as replicas share their counts every 2s. 0 prints the counts since the replicas began to count, without a wait. It is also the time between two updates of the screen, there 2s by default")
	f.IntVar(&o.Limit, "limit", 20, "rows of the table, from 1 to 1000")
	output.AddChoiceFlag(cmd, &o.Output, "output", "o", output.Formats(), "format: "+strings.Join(output.Formats(), ", "))
	return cmd
}

// run asks a replica, again after the interval, and prints the table.
func (o *options) run(ctx context.Context, w io.Writer) error {
	replica, err := o.Replicas.Open(ctx)
	if err != nil {
		return err
	}
	defer replica.Close()
	var before, now *busiest.Sum
	if o.Interval > 0 {
		if before, err = o.fetch(ctx, replica); err != nil {
			return err
		}
		select {
		case <-time.After(o.Interval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if now, err = o.fetch(ctx, replica); err != nil {
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

// fetch asks a replica for the rankings of all namespaces, or of one.
func (o *options) fetch(ctx context.Context, replica *replicas.Replica) (*busiest.Sum, error) {
	if namespace := o.Replicas.Namespace; namespace != "" {
		live, err := replica.Live(ctx, namespace)
		return &live.Sum, err
	}
	var sum busiest.Sum
	err := replica.Get(ctx, "/busiest", nil, &sum)
	return &sum, err
}

// isInteractive reports whether in and out are a terminal that can show a screen.
func isInteractive(in io.Reader, out io.Writer) bool {
	for _, stream := range []any{in, out} {
		if f, ok := stream.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
			return false
		}
	}
	return os.Getenv("TERM") != "dumb"
}

// follow shows the screen until the user quits.
func (o *options) follow(ctx context.Context, out io.Writer) error {
	ctx, end := context.WithCancel(ctx)
	first, err := o.Replicas.Open(ctx)
	if err != nil {
		end()
		return err
	}
	views := live.Watch(ctx, first, live.Options{Open: o.Replicas.Open, Namespace: o.Replicas.Namespace, Interval: o.Interval})
	defer func() {
		end()
		for range views { // until the connection to the replica is closed
		}
	}()
	return screen.Run(ctx, os.Stdin, out, views, screen.Options{
		Namespace: o.Replicas.Namespace, By: busiest.Dimension(o.By), Sort: o.Sort,
		Explain: func(ctx context.Context, namespace, kind, name string) (string, error) {
			var report strings.Builder
			err := explain.Object(ctx, &report, o.Replicas, namespace, kind, name)
			return report.String(), err
		},
		Brake: func() (*brake.Brake, error) {
			config, _, err := o.Replicas.Cluster.Config()
			if err != nil {
				return nil, err
			}
			return brake.New(config, o.Replicas.Namespace)
		},
	})
}
