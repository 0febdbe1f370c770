package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/bystander"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

// result contains the counts of a storm, and how the API server served a bystander meanwhile.
type result struct {
	sent, reported, stored, writes int64
	bystander                      bystander.Result
}

// baselineTime is how long the bystander is measured before a storm.
const baselineTime = 3 * time.Second

// webhookFlags returns the webhook's flags: the shipped deadline.
func webhookFlags() []string { return []string{"--deadline=200ms"} }

// demo runs each storm with and without the webhook and compares.
func demo(ctx context.Context) (err error) {
	c, program, err := start(ctx, cluster.Options{Log: os.Stdout})
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, c.Stop()) }()
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if err := grantWriters(ctx, c); err != nil {
		return err
	}
	other, err := bystander.New(ctx, c)
	if err != nil {
		return err
	}
	var figures strings.Builder
	var miscounted int64
	for _, s := range scenarios() {
		quiet := other.RunFor(ctx, baselineTime)
		with, without, err := compare(ctx, c, client, other, program, s)
		if err != nil {
			return err
		}
		fmt.Printf("\nEvents stored:  %d with eventquota, %d without: 1/%d\n", with.stored, without.stored, without.stored/max(with.stored, 1))
		fmt.Printf("etcd writes:    %d with eventquota, %d without: 1/%d\n", with.writes, without.writes, without.writes/max(with.writes, 1))
		fmt.Printf("occurrences:    %d reached the API server, stored Events and notices report %d\n", with.sent, with.reported)
		fmt.Printf("other requests: 99 of 100 of another account's were answered within %.0f ms before the storm, %.0f ms with eventquota, %.0f ms without; %d and %d failed\n",
			quiet.Milliseconds(0.99), with.bystander.Milliseconds(0.99), without.bystander.Milliseconds(0.99), with.bystander.Failed, without.bystander.Failed)
		for _, figure := range []struct {
			name  string
			value any
		}{
			{"sent", with.sent},
			{"stored_with", with.stored}, {"stored_without", without.stored},
			{"etcd_writes_with", with.writes}, {"etcd_writes_without", without.writes},
			{"bystander_quiet_p99_ms", quiet.Milliseconds(0.99)},
			{"bystander_with_p99_ms", with.bystander.Milliseconds(0.99)}, {"bystander_without_p99_ms", without.bystander.Milliseconds(0.99)},
			{"bystander_failed_with", with.bystander.Failed}, {"bystander_failed_without", without.bystander.Failed},
		} {
			fmt.Fprintf(&figures, "%s%s: %v\n", s.prefix, figure.name, figure.value)
		}
		// The errors of two storms must not cancel each other out.
		miscounted += max(with.reported-with.sent, with.sent-with.reported)
	}
	fmt.Printf("\n%scount_error: %d\n", &figures, miscounted)
	return nil
}

// compare runs a storm with eventquota, and then without it.
func compare(
	ctx context.Context, c *cluster.Cluster, client kubernetes.Interface, other *bystander.Bystander, program string, s scenario,
) (with, without result, err error) {
	fmt.Printf("\n%s\n", s.description)
	r, err := replica.Start(ctx, c, program, webhookFlags()...)
	if err != nil {
		return with, without, err
	}
	// The replica has stopped by then unless an error occurred.
	defer r.Kill()
	if s.policy != "" {
		fmt.Printf("\n%s", s.policy)
		if err := applyPolicy(ctx, c.Config, s.policy); err != nil {
			return with, without, err
		}
	}
	if err := c.InstallPriorityLevels(ctx); err != nil {
		return with, without, err
	}
	if err := r.InstallShipped(ctx); err != nil {
		return with, without, err
	}
	fmt.Println("\nWith eventquota:")
	namespace := s.name + "-with"
	if with, err = measure(ctx, c, client, other, r, namespace, s); err != nil {
		return with, without, err
	}
	if err := printEvents(ctx, c, os.Stdout, namespace, s.selectors); err != nil {
		return with, without, err
	}
	if err := c.RemoveWebhooks(ctx); err != nil {
		return with, without, err
	}
	if err := c.RemovePriorityLevels(ctx); err != nil {
		return with, without, err
	}
	fmt.Println("\nThe same storm, with the webhook and its priority levels removed:")
	namespace = s.name + "-without"
	if without, err = measure(ctx, c, client, other, nil, namespace, s); err != nil {
		return with, without, err
	}
	return with, without, printEvents(ctx, c, os.Stdout, namespace, s.showsWithout)
}

// start starts the control plane and builds the webhook.
func start(ctx context.Context, opts cluster.Options) (c *cluster.Cluster, program string, err error) {
	c, err = cluster.Start(ctx, opts)
	if err != nil {
		return nil, "", err
	}
	if program, err = replica.Build(ctx); err != nil {
		return nil, "", firstError(err, c.Stop())
	}
	return c, program, nil
}

// measure runs the storm in a namespace and prints its progress. Afterwards it stops the replica, if any, which then
// writes all pending counts.
func measure(
	ctx context.Context, c *cluster.Cluster, client kubernetes.Interface, other *bystander.Bystander, r *replica.Replica, namespace string, s scenario,
) (result, error) {
	_, err := client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return result{}, fmt.Errorf("create namespace: %w", err)
	}
	g, err := newGauge(ctx, c, client, r, namespace)
	if err != nil {
		return result{}, err
	}
	done := make(chan struct{})
	stormed, watched := make(chan error, 1), make(chan bystander.Result, 1)
	go func() {
		defer close(done)
		stormed <- s.start(ctx, c, namespace)
	}()
	go func() { watched <- other.Run(ctx, done) }()
	if err := g.watch(ctx, os.Stdout, done); err != nil {
		return result{}, err
	}
	if err := <-stormed; err != nil {
		return result{}, err
	}
	served := <-watched
	if err := g.waitForQuiet(ctx); err != nil {
		return result{}, err
	}
	if r != nil {
		fmt.Println("The storm is over; the webhook is stopped and writes the counts that are still pending.")
		if err := r.Stop(); err != nil {
			return result{}, err
		}
		g.replica = nil
	}
	now, err := g.read(ctx)
	if err != nil {
		return result{}, err
	}
	all, err := sumReported(ctx, client, namespace)
	return result{sent: now.sent, reported: all, stored: now.stored, writes: now.writes, bystander: served}, err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
