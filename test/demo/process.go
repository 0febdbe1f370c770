package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/eventquota/eventquota/test/cluster"
)

// grantWriters lets the writers of all storms write Events, and operators their objects.
func grantWriters(ctx context.Context, c *cluster.Cluster) error {
	writesEvents := rbacv1.PolicyRule{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}}
	ownsConfigMaps := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create", "update"}}
	return errors.Join(
		c.Grant(ctx, "demo-operators", "system:serviceaccounts:operators", writesEvents, ownsConfigMaps),
		c.Grant(ctx, "demo-kubelets", "system:nodes", writesEvents))
}

// start runs the storm in a separate process with low priority, because the clients of a real cluster run on other
// machines. The process ends when the storm is over, or when ctx ends.
func (s scenario) start(ctx context.Context, c *cluster.Cluster, namespace string) error {
	admin, err := c.Kubeconfig()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	process := exec.CommandContext(ctx, "nice", "-n", "19", self, "-storm", s.name, "-namespace", namespace, "-kubeconfig", admin)
	process.Stderr = os.Stderr
	in, err := process.StdinPipe() // closed when this process ends, which ends the storm
	if err != nil {
		return err
	}
	defer in.Close()
	if err := process.Run(); err != nil {
		return fmt.Errorf("storm %s: %w", s.name, err)
	}
	return nil
}

// runStorm is the main function of the storm's process.
func runStorm(ctx context.Context, name, namespace, kubeconfig string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	all := scenarios()
	at := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })
	if at < 0 {
		return fmt.Errorf("-storm %q: no such storm", name)
	}
	admin, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	admin.QPS = -1
	return all[at].run(ctx, admin, namespace)
}
