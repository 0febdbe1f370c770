package cluster

import (
	"context"
	"strconv"

	"github.com/eventquota/eventquota/test/ports"
)

// startScheduler starts kube-scheduler without leader election. Kubernetes grants its rights to its user name.
func (c *Cluster) startScheduler(ctx context.Context, path string) error {
	_, kubeconfig, err := c.User("system:kube-scheduler")
	if err != nil {
		return err
	}
	port, err := ports.Acquire()
	if err != nil {
		return err
	}
	scheduler, err := startProgram(ctx, c.Dir, path, "https://"+ports.Address(port)+"/healthz",
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--kube-api-qps=500", // ten times the default, so that a storm of pods does not wait for it
		"--kube-api-burst=1000",
		"--bind-address=127.0.0.1",
		"--secure-port="+strconv.Itoa(port),
	)
	if err != nil {
		return err
	}
	c.programs = append(c.programs, scheduler)
	return nil
}
