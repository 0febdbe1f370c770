package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

// testEnv has one control plane or two, which differ only in the EventRateLimit plugin, and the programs that serve webhooks.
type testEnv struct {
	cluster     *cluster.Cluster
	rateLimited *cluster.Cluster   // nil if no scenario needs the plugin
	policies    client.Client      // for the policies and quotas in cluster
	programs    map[program]string // paths of the executables
	collector   *collector
	redis       map[storeKind]string // addresses, after startRedis
	stoppers    []func() error       // called by stop, the last one first
}

// newTestEnv starts the control planes and builds the webhook. limits is the configuration of the EventRateLimit plugin of one of them. If
// it is empty, there is only the other.
func newTestEnv(ctx context.Context, limits string) (_ *testEnv, err error) {
	env := &testEnv{}
	defer func() {
		if err != nil {
			err = errors.Join(err, env.stop())
		}
	}()
	if env.cluster, err = cluster.Start(ctx, cluster.Options{Log: os.Stderr, NoAudit: true}); err != nil {
		return nil, err
	}
	if limits != "" {
		env.rateLimited, err = cluster.Start(ctx, cluster.Options{Log: os.Stderr, NoAudit: true, EventRateLimit: limits})
		if err != nil {
			return nil, err
		}
	}
	if err := env.definePolicies(); err != nil {
		return nil, err
	}
	if env.collector, err = newCollector(ctx); err != nil {
		return nil, err
	}
	env.stoppers = append(env.stoppers, env.collector.stop)
	webhook, err := replica.Build(ctx)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	env.programs = map[program]string{realWebhook: webhook, plainWebhook: self}
	return env, nil
}

// stop stops the webhooks, the collector and the control planes.
func (env *testEnv) stop() error {
	var errs []error
	for _, stop := range slices.Backward(env.stoppers) {
		errs = append(errs, stop())
	}
	for _, c := range []*cluster.Cluster{env.cluster, env.rateLimited} {
		if c != nil {
			errs = append(errs, c.Stop())
		}
	}
	return errors.Join(errs...)
}

// entrant is a scenario that is ready to be measured. Its quota exists, the API server calls its webhook for the Events of its
// namespace, and the warm-up has used up all bursts.
type entrant struct {
	scenario

	cluster *cluster.Cluster
	replica *replica.Replica // nil without a webhook
	load    *load
	stop    func() error // stops the webhook, which first writes its pending counts and notices
}

// webhookCounts returns the processor time of the entrant's webhook and its decisions without Redis, both since its start.
func (e *entrant) webhookCounts(ctx context.Context) (now counts, err error) {
	if e.replica == nil {
		return now, nil
	}
	if e.store != embeddedStore {
		if now.alone, err = e.replica.Sum(ctx, "eventquota_decisions_without_store_total"); err != nil {
			return now, err
		}
	}
	now.webhook, err = e.replica.ProcessorTime()
	return now, err
}

// newEntrant prepares a scenario in a new namespace called name, with hyphens instead of underscores.
func (env *testEnv) newEntrant(ctx context.Context, s scenario, name string) (_ *entrant, err error) {
	e := &entrant{scenario: s, cluster: env.cluster, stop: func() error { return nil }}
	if s.limited {
		e.cluster = env.rateLimited
	}
	namespace := strings.ReplaceAll(name, "_", "-")
	if err := createNamespace(ctx, e.cluster, namespace); err != nil {
		return nil, err
	}
	if err := createQuota(ctx, env.policies, namespace, s.limit); err != nil {
		return nil, err
	}
	if s.webhook != nil {
		flags := append([]string{"--shutdown-delay=0s"}, s.webhook.flags...)
		if s.sinkEnabled {
			flags = append(flags, "--sink-otlp-endpoint="+env.collector.endpoint)
		}
		if s.store != embeddedStore {
			flags = append(flags, "--redis-addresses="+env.redis[s.store], "--redis-prefix="+namespace+":")
		}
		r, err := replica.Start(ctx, e.cluster, env.programs[s.webhook.program], flags...)
		if err != nil {
			return nil, err
		}
		e.replica, e.stop = r, sync.OnceValue(r.Stop)
		env.stoppers = append(env.stoppers, e.stop)
		if err := r.InstallFor(ctx, namespace); err != nil {
			return nil, err
		}
	}
	if e.load, err = newLoad(e.cluster.Config, namespace, s.event); err != nil {
		return nil, err
	}
	env.stoppers = append(env.stoppers, func() error { e.load.close(); return nil })
	if err := e.load.writeUntil(ctx, warmupEvents); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	if s.serial {
		e.load.keepOneWriter()
	}
	return e, nil
}

// definePolicies installs the CRDs in env.cluster and sets env.policies.
func (env *testEnv) definePolicies() error {
	crds, err := manifests.CRDs()
	if err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(env.cluster.Config, envtest.CRDInstallOptions{CRDs: crds}); err != nil {
		return fmt.Errorf("install the CRDs: %w", err)
	}
	env.policies, err = newPolicies(env.cluster)
	return err
}

// newPolicies returns a client for policies and quotas.
func newPolicies(c *cluster.Cluster) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	policies, err := client.New(c.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make a client for policies: %w", err)
	}
	return policies, nil
}

// createNamespace creates a namespace. It fails if the namespace exists.
func createNamespace(ctx context.Context, c *cluster.Cluster, name string) error {
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := clients.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}

// createQuota creates an EventQuota with one limit in a namespace. It does nothing if limit is nil.
func createQuota(ctx context.Context, policies client.Client, namespace string, limit *v1alpha1.Limit) error {
	if limit == nil {
		return nil
	}
	q := &v1alpha1.EventQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bench"}}
	q.Spec.Limits = []v1alpha1.Limit{*limit}
	if err := policies.Create(ctx, q); err != nil {
		return fmt.Errorf("create an EventQuota in namespace %s: %w", namespace, err)
	}
	return nil
}
