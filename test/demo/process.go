package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/eventquota/eventquota/test/cluster"
)

// grantWriters lets the writers of all storms write Events, and kubelets do what they do with pods.
func grantWriters(ctx context.Context, c *cluster.Cluster) error {
	writesEvents := rbacv1.PolicyRule{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}}
	endsPods := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch", "delete"}}
	return errors.Join(
		c.Grant(ctx, "demo-operators", "system:serviceaccounts:operators", writesEvents),
		c.Grant(ctx, "demo-kubelets", "system:nodes", writesEvents, endsPods))
}

// start makes the storm in a namespace, in a process of its own that gives way to others: elsewhere the clients of an API server are
// on other machines. The process ends when the storm is over, or with ctx.
func (s scenario) start(ctx context.Context, c *cluster.Cluster, namespace string) error {
	admin, err := c.Kubeconfig()
	if err != nil {
		return err
	}
	kubeconfigs := []string{admin}
	for _, w := range s.writers {
		_, path, err := c.User(w.user, w.groups...)
		if err != nil {
			return err
		}
		kubeconfigs = append(kubeconfigs, path)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	process := exec.CommandContext(ctx, "nice", "-n", "19", self, "-storm", s.name, "-namespace", namespace, "-kubeconfigs", strings.Join(kubeconfigs, ","))
	process.Stderr = os.Stderr
	in, err := process.StdinPipe() // ends with this process, and so does the storm
	if err != nil {
		return err
	}
	defer in.Close()
	if err := process.Run(); err != nil {
		return fmt.Errorf("storm %s: %w", s.name, err)
	}
	return nil
}

// stormIn is that process.
func stormIn(ctx context.Context, name, namespace, kubeconfigs string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	all := scenarios()
	at := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })
	if at < 0 {
		return fmt.Errorf("-storm %q: there is no such storm", name)
	}
	var configs []*rest.Config
	for path := range strings.SplitSeq(kubeconfigs, ",") {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return fmt.Errorf("-kubeconfigs: %w", err)
		}
		config.QPS = -1
		configs = append(configs, config)
	}
	return all[at].run(ctx, namespace, configs[0], configs[1:])
}
