// Package ui is the command that serves a live page about Event writes to the browsers of one user.
package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
	"github.com/eventquota/eventquota/cmd/webhook/explain"
	"github.com/eventquota/eventquota/cmd/webhook/live"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
)

// options are the flags of ui.
type options struct {
	Replicas *replicas.Options
	Port     int
	Interval time.Duration
}

func (o *options) validate() error {
	var errs []error
	if o.Port != 0 && (o.Port < 1024 || o.Port > 65535) {
		errs = append(errs, fmt.Errorf("--port %d: must be 0, or from 1024 to 65535", o.Port))
	}
	if o.Interval < live.DefaultInterval || o.Interval > time.Hour {
		errs = append(errs, fmt.Errorf("--interval %s: must be from 2s to 1h", o.Interval))
	}
	return errors.Join(errs...)
}

// Command returns the command eventquota ui.
func Command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a live page of the busiest sources and objects of Event writes",
		Long: `Ui serves the content of the screen of top as a page for a browser on this machine. It
changes nothing. The page shows:

  - how many Event writes come in, and how many of them are stored, merged and dropped,
    now and over time;
  - the busiest namespaces, sources, objects, reasons and policies, each with a link to
    its details;
  - the report of explain about an object;
  - the quotas, the emptiest first, which refuse Events now or will refuse some soon.

It prints the address of the page, which contains a secret: anyone with that address who
can reach the port sees what you may see, until the command ends. The port is open only
on this machine. The page loads nothing from elsewhere.

It asks a replica as top does, with the rights of your kubeconfig: see the help of top,
also for users who may see only one namespace. To explain an object needs the rights of
explain. If a replica does not answer, the page says so, and ui continues with the next
one that does.`,
		Example: `  eventquota ui
  kubectl eventquota ui --namespace shop
  kubectl eventquota ui --context prod --port 8001
  eventquota ui --endpoint http://127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var wrong error
			o.Replicas.Namespace, wrong = apiserver.ExplicitNamespace(cmd.Flag("namespace"))
			if err := errors.Join(wrong, o.validate()); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if err := o.run(ctx, cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("ui: %w", err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	o.Replicas = replicas.AddFlags(f, true)
	f.Lookup("namespace").Usage = "the only namespace to show; default all, whatever the namespace of the kubeconfig"
	o.Replicas.AddSystemFlag(f)
	output.RefuseEmpty(f, "namespace", "endpoint")
	f.IntVar(&o.Port, "port", 0, "port of 127.0.0.1 to serve the page on, from 1024 to 65535; 0 for any free port")
	f.DurationVar(&o.Interval, "interval", live.DefaultInterval, "time between two updates, from 2s to 1h, as replicas share their counts every 2s")
	return cmd
}

// run serves the page until ctx ends.
func (o *options) run(ctx context.Context, out io.Writer) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	first, err := o.Replicas.Open(ctx)
	if err != nil {
		return err
	}
	views := live.Watch(ctx, first, live.Options{Open: o.Replicas.Open, Namespace: o.Replicas.Namespace, Interval: o.Interval})
	latest := newLatestView()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for v := range views { // until the connection to the replica is closed
			latest.set(&v)
		}
	}()
	defer func() {
		end()
		<-done
	}()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", net.JoinHostPort(loopback, strconv.Itoa(o.Port)))
	if err != nil {
		return fmt.Errorf("--port: %w", err)
	}
	p := newPage(listener.Addr().String(), latest, o.explain)
	fmt.Fprintf(out, "%s\nAnyone with this address can see in a browser on this machine what you may see, until you press Ctrl-C.\n", p.url())
	return serve(ctx, listener, p)
}

// explain writes the report on an object as JSON.
func (o *options) explain(ctx context.Context, w io.Writer, namespace, kind, name string) error {
	return explain.Report(ctx, w, o.Replicas, namespace, kind, name)
}

// Bounds of connections. The page uses one stream, and few other requests.
const (
	headerTimeout   = 5 * time.Second
	idleTimeout     = time.Minute
	maxHeaderBytes  = 64 << 10 // URLs have escaped names of objects
	shutdownTimeout = 5 * time.Second
)

// serve serves h until ctx ends, which also ends running requests.
func serve(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve the page: %w", err)
	case <-ctx.Done():
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := server.Shutdown(shutdown)
	if err != nil {
		err = server.Close()
	}
	if serveErr := <-ended; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}
