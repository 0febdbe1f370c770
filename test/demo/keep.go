package main

import (
	"context"
	"fmt"
	"path/filepath"
)

// keepUp keeps the cluster and the webhook up until ctx ends.
func keepUp(ctx context.Context) (err error) {
	c, r, err := start(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, c.Stop()) }()
	kubeconfig, err := c.Kubeconfig()
	if err != nil {
		r.Kill()
		return err
	}
	fmt.Printf(`
The cluster is up, and its API server calls the webhook for every Event.

  export KUBECONFIG=%s
  export PATH="$PATH:%s"         # a kubectl, for who has none
  kubectl get events -A          # the Events
  curl -s %s     # the webhook's metrics

Ctrl-C ends it.
`, kubeconfig, filepath.Dir(c.KubectlPath()), r.MetricsURL)
	<-ctx.Done()
	fmt.Println("\nStopping.")
	return r.Stop()
}
