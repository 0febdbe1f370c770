package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

// keepUp runs the cluster and the webhook until ctx ends.
func keepUp(ctx context.Context) (err error) {
	running := context.WithoutCancel(ctx)
	c, program, err := start(running, cluster.Options{Log: os.Stdout, Scheduler: true})
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, c.Stop()) }()
	kubeconfig, err := c.Kubeconfig()
	if err != nil {
		return err
	}
	kubectl, err := c.KubectlPath(running)
	if err != nil {
		return err
	}
	r, err := replica.Start(running, c, program, webhookFlags()...)
	if err != nil {
		return err
	}
	defer r.Kill()
	if err := r.InstallShipped(running); err != nil {
		return err
	}
	fmt.Printf(`
The cluster is up, and its API server calls the webhook for every Event.

  export KUBECONFIG=%s
  export PATH="$PATH:%s"         # a kubectl, if you have none
  kubectl get events -A          # the Events
  curl -s %s     # the webhook's metrics
  make build && bin/eventquota top --endpoint %s     # who writes Events, live; ui shows it in a browser

Ctrl-C ends it.
`, kubeconfig, filepath.Dir(kubectl), r.MetricsURL, strings.TrimSuffix(r.MetricsURL, "/metrics"))
	<-ctx.Done()
	fmt.Println("\nStopping.")
	return r.Stop()
}
