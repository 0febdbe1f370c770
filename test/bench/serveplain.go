package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
)

// serveCommand is the subcommand that serves a webhook, in this program and in the real one.
const serveCommand = "serve"

// servePlain serves plain handlers until ctx is done. It uses the server and the flags of the real webhook. Its /validate allows all
// requests.
func servePlain(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(serveCommand, flag.ContinueOnError)
	host := flags.String("bind-address", "127.0.0.1", "IP address to serve the webhook on")
	port := flags.Int("port", 0, "port to serve the webhook on")
	certDir := flags.String("cert-dir", "", "`directory` with tls.crt and tls.key")
	health := flags.String("health-address", "", "address to serve /readyz on")
	answer := flags.String("answer", answerAllow, "answer to every review: allow, read, patch, deny or drop")
	delay := flags.Duration("delay", 0, "time to wait before each answer")
	for _, ignored := range []string{"metrics-address", "metrics-secure", "kubeconfig", "shutdown-delay", "deadline"} {
		flags.String(ignored, "", "ignored")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	mutating, validating := newPlainHandler(*answer), newPlainHandler(answerAllow)
	mutating.delay, validating.delay = *delay, *delay
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{Host: *host, Port: *port, CertDir: *certDir, TLSOpts: []func(*tls.Config){
		func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }, // as the API server uses for a Service
	}})
	server.Register("/mutate", mutating)
	server.Register("/validate", validating)

	ready := &http.Server{
		Addr:              *health,
		Handler:           http.StripPrefix("/readyz", &healthz.Handler{Checks: map[string]healthz.Checker{"webhook": server.StartedChecker()}}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	defer ready.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := ready.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("-health-address: %w", err))
		}
	}()
	if err := server.Start(ctx); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
