package main

import (
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

// result is what a storm left behind.
type result struct {
	sent, told, stored, writes int64
}

// demo runs the storm with and without the webhook and compares.
func demo(ctx context.Context) (err error) {
	c, r, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, c.Stop()) }()
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}

	fmt.Println("\nA storm of Events, with the webhook:")
	with, err := measure(ctx, c, client, r, "storm-with")
	if err != nil {
		return err
	}
	for _, object := range []string{"web-0", "pending-0"} {
		if err := printEvents(ctx, c, os.Stdout, "storm-with", object); err != nil {
			return err
		}
	}
	if err := c.RemoveWebhooks(ctx); err != nil {
		return err
	}

	fmt.Println("\nThe same storm, with the webhook removed:")
	without, err := measure(ctx, c, client, nil, "storm-without")
	if err != nil {
		return err
	}
	fmt.Printf("\nEvents stored:  %d with the webhook, %d without: 1/%d\n", with.stored, without.stored, without.stored/max(with.stored, 1))
	fmt.Printf("etcd writes:    %d with the webhook, %d without: 1/%d\n", with.writes, without.writes, without.writes/max(with.writes, 1))
	fmt.Printf("occurrences:    %d reached the API server, stored Events and notices tell of %d\n\n", with.sent, with.told)
	fmt.Printf("sent: %d\nstored_with: %d\nstored_without: %d\netcd_writes_with: %d\netcd_writes_without: %d\ncount_error: %d\n",
		with.sent, with.stored, without.stored, with.writes, without.writes, with.told-with.sent)
	return nil
}

// start starts the control plane and the webhook, which the API server calls
// from then on.
func start(ctx context.Context) (*cluster.Cluster, *replica.Replica, error) {
	c, err := cluster.Start(ctx, cluster.Options{Log: os.Stdout, Scheduler: true})
	if err != nil {
		return nil, nil, err
	}
	r, err := install(ctx, c)
	if err != nil {
		return nil, nil, firstError(err, c.Stop())
	}
	return c, r, nil
}

func install(ctx context.Context, c *cluster.Cluster) (*replica.Replica, error) {
	program, err := replica.Build(ctx, c.Dir)
	if err != nil {
		return nil, err
	}
	r, err := replica.Start(ctx, c, program)
	if err != nil {
		return nil, err
	}
	if err := r.Install(ctx); err != nil {
		r.Kill()
		return nil, err
	}
	return r, nil
}

// measure runs the storm in a namespace and shows it while it runs. With a
// replica it stops it then, so that it settles all that it has merged.
func measure(ctx context.Context, c *cluster.Cluster, client kubernetes.Interface, r *replica.Replica, namespace string) (result, error) {
	kubeconfig, err := c.Kubeconfig()
	if err != nil {
		return result{}, err
	}
	g, err := newGauge(ctx, c, client, r, namespace)
	if err != nil {
		return result{}, err
	}
	done := make(chan struct{})
	stormed := make(chan error, 1)
	go func() {
		defer close(done)
		stormed <- unleash(ctx, client, kubeconfig, namespace)
	}()
	if err := g.watch(ctx, os.Stdout, done); err != nil {
		return result{}, err
	}
	if err := <-stormed; err != nil {
		return result{}, err
	}
	if err := calm(ctx, client, namespace); err != nil {
		return result{}, err
	}
	if r != nil {
		fmt.Println("The storm is over; the webhook is stopped and settles what it still owes.")
		if err := r.Stop(); err != nil {
			return result{}, err
		}
		g.replica = nil
	}
	now, err := g.read(ctx)
	if err != nil {
		return result{}, err
	}
	all, err := told(ctx, client, namespace)
	return result{sent: now.sent, told: all, stored: now.stored, writes: now.writes}, err
}

// calm deletes the pods of a namespace, so that the scheduler has nothing more
// to tell.
func calm(ctx context.Context, client kubernetes.Interface, namespace string) error {
	err := client.CoreV1().Pods(namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("delete the pods: %w", err)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
