package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

// bed is what all scenarios run on: two control planes, equal but for the
// EventRateLimit plugin, and the programs that serve webhooks.
type bed struct {
	cluster, limited *cluster.Cluster
	policies         client.Client      // of cluster
	programs         map[program]string // paths
}

// newBed starts the control planes and builds the webhook.
func newBed(ctx context.Context) (_ *bed, err error) {
	b := &bed{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	if b.cluster, err = cluster.Start(ctx, cluster.Options{Log: os.Stderr, NoAudit: true}); err != nil {
		return nil, err
	}
	b.limited, err = cluster.Start(ctx, cluster.Options{Log: os.Stderr, NoAudit: true, EventRateLimit: eventRateLimit})
	if err != nil {
		return nil, err
	}
	if err := b.definePolicies(); err != nil {
		return nil, err
	}
	webhook, err := replica.Build(ctx, b.cluster.Dir)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	b.programs = map[program]string{ours: webhook, plain: self}
	return b, nil
}

// stop ends all that runs.
func (b *bed) stop() error {
	var errs []error
	for _, c := range []*cluster.Cluster{b.cluster, b.limited} {
		if c != nil {
			errs = append(errs, c.Stop())
		}
	}
	return errors.Join(errs...)
}

// on is the control plane that a scenario runs on.
func (b *bed) on(s scenario) *cluster.Cluster {
	if s.limited {
		return b.limited
	}
	return b.cluster
}

// definePolicies makes policies known to the API server.
func (b *bed) definePolicies() error {
	crds, err := manifests.CRDs()
	if err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(b.cluster.Config, envtest.CRDInstallOptions{CRDs: crds}); err != nil {
		return fmt.Errorf("install the CRDs: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	if b.policies, err = client.New(b.cluster.Config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("make a client of policies: %w", err)
	}
	return nil
}

// serve starts the webhook of a scenario, if it has one, and makes the API
// server call it. stop ends the webhook, which first settles what is pending.
func (b *bed) serve(ctx context.Context, s scenario) (stop func() error, err error) {
	if s.webhook == nil {
		return func() error { return nil }, nil
	}
	flags := append([]string{"--shutdown-delay=0s"}, s.webhook.flags...)
	r, err := replica.Start(ctx, b.on(s), b.programs[s.webhook.program], flags...)
	if err != nil {
		return nil, err
	}
	if err := r.Install(ctx); err != nil {
		r.Kill()
		return nil, err
	}
	return r.Stop, nil
}

// apply makes a policy of a quota, if there is one, which remove deletes.
func (b *bed) apply(ctx context.Context, quota *v1alpha1.QuotaBucket) (remove func() error, err error) {
	if quota == nil {
		return func() error { return nil }, nil
	}
	p := &v1alpha1.ClusterEventPolicy{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}
	p.Spec.Quotas = []v1alpha1.ClusterQuota{{Type: v1alpha1.ClusterQuotaType(policy.QuotaNamespace), QuotaBucket: *quota}}
	if err := b.policies.Create(ctx, p); err != nil {
		return nil, fmt.Errorf("create a policy: %w", err)
	}
	return func() error {
		if err := b.policies.Delete(ctx, p); err != nil {
			return fmt.Errorf("delete a policy: %w", err)
		}
		return nil
	}, nil
}
