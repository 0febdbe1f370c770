// Package ui is the command that serves a page which follows a storm, to the browsers of one user.
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

	"github.com/eventquota/eventquota/cmd/webhook/explain"
	"github.com/eventquota/eventquota/cmd/webhook/live"
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

// Command is eventquota ui.
func Command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a page that follows who and what makes Event writes",
		Long: `Ui shows what the screen of top shows, as a page in a browser of this machine: how many
Event writes come in, and how many of them are stored, merged and dropped, now and over
time; which namespaces, sources, objects, reasons and policies they are of, with a way
from each to what is behind it; what explain says of an object; and the quotas by how
empty they are, with what they refuse now and will refuse next. It changes nothing.

It prints the address of the page, which has a secret in it: whoever has that address
and can reach the port sees what you may see, until the command ends. The port is open
to this machine only. The page loads nothing from elsewhere.

It asks a replica as top does, with the rights of your kubeconfig; see the help of top,
also for users who may see one namespace only. To explain an object takes the rights
that explain needs. Where a replica does not answer, the page says so, and goes on with
the next one that does.`,
		Example: `  eventquota ui
  kubectl eventquota ui --namespace shop
  kubectl eventquota ui --context prod --port 8001
  eventquota ui --endpoint http://127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			o.Replicas.Namespace = cmd.Flag("namespace").Value.String()
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
	f.Lookup("namespace").Usage = "the only namespace to show; all without it, whatever the kubeconfig says"
	o.Replicas.AddSystemFlag(f)
	f.IntVar(&o.Port, "port", 0, "port of 127.0.0.1 to serve the page on, from 1024 to 65535; 0 for any that is free")
	f.DurationVar(&o.Interval, "interval", live.DefaultInterval, "time between two looks, from 2s to 1h, as replicas report their counts every 2s")
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
	newest := newLatestView()
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		for v := range views { // until the way to the replica is closed
			newest.set(&v)
		}
	}()
	defer func() {
		end()
		<-followed
	}()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", net.JoinHostPort(loopback, strconv.Itoa(o.Port)))
	if err != nil {
		return fmt.Errorf("--port: %w", err)
	}
	p := newPage(listener.Addr().String(), newest, o.explain)
	fmt.Fprintf(out, "%s\nWhoever has this address sees in a browser of this machine what you may see, until you end this with Ctrl-C.\n", p.url())
	return serve(ctx, listener, p)
}

// explain writes what is known of an object as JSON.
func (o *options) explain(ctx context.Context, w io.Writer, namespace, kind, name string) error {
	return explain.Report(ctx, w, o.Replicas, namespace, kind, name)
}

// Bounds of connections. The page has one stream, and asks for little else.
const (
	headerTimeout   = 5 * time.Second
	idleTimeout     = time.Minute
	maxHeaderBytes  = 64 << 10 // it has names of objects, escaped
	shutdownTimeout = 5 * time.Second
)

// serve serves h until ctx ends, and what it serves with it.
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
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := server.Shutdown(within)
	if err != nil {
		err = server.Close()
	}
	if of := <-ended; !errors.Is(of, http.ErrServerClosed) {
		err = errors.Join(err, of)
	}
	return err
}
