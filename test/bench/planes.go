package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/test/bystander"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

const (
	// slowWebhook is the name of an additional webhook for Events.
	slowWebhook = "slow.bench.example.com"
	// slowAnswer is the time that slowWebhook takes for an answer.
	slowAnswer = 100 * time.Millisecond
)

// refuseAllConfig makes the EventRateLimit plugin refuse all but a few Events, as a quota without tokens does.
const refuseAllConfig = `apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits:
- {type: Namespace, qps: 1, burst: 1, cacheSize: 4096}
`

// controlPlanes has the control planes of the storm scenarios and their webhooks.
type controlPlanes struct {
	*testEnv

	clusters   map[plane]*cluster.Cluster
	bystanders map[plane]*bystander.Bystander
	policies   map[plane]client.Client
	webhooks   map[string]*replica.Replica // by control plane, program and flags
}

// newControlPlanes starts the control planes and the other account's client on each.
func newControlPlanes(ctx context.Context) (_ *controlPlanes, err error) {
	p := &controlPlanes{
		clusters: map[plane]*cluster.Cluster{}, bystanders: map[plane]*bystander.Bystander{},
		policies: map[plane]client.Client{}, webhooks: map[string]*replica.Replica{},
	}
	if p.testEnv, err = newTestEnv(ctx, refuseAllConfig); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	prioritized, err := cluster.Start(ctx, cluster.Options{Log: os.Stderr, NoAudit: true})
	if err != nil {
		return nil, err
	}
	p.stoppers = append(p.stoppers, prioritized.Stop)
	p.clusters = map[plane]*cluster.Cluster{plainPlane: p.cluster, limitedPlane: p.rateLimited, priorityPlane: prioritized}
	for which, c := range p.clusters {
		if p.bystanders[which], err = bystander.New(ctx, c); err != nil {
			return nil, err
		}
		if p.policies[which], err = newPolicies(c); err != nil {
			return nil, err
		}
		err := c.Grant(ctx, "write-events", "system:authenticated",
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}})
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// prepare creates the namespace, quota and webhooks of each storm. They affect no other storm's namespace.
func (p *controlPlanes) prepare(ctx context.Context, all []stormScenario) error {
	for _, s := range all {
		if s.answerPrefix == "" {
			continue
		}
		if err := createNamespace(ctx, p.clusters[s.plane], s.namespace()); err != nil {
			return fmt.Errorf("%s: %w", s.title(), err)
		}
		if err := p.install(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.title(), err)
		}
	}
	// This comes last, because installing a webhook applies the base of manifests/, which has the priority levels.
	for which, c := range p.clusters {
		if which == priorityPlane {
			if err := c.InstallPriorityLevels(ctx); err != nil {
				return err
			}
		} else if err := c.RemovePriorityLevels(ctx); err != nil {
			return err
		}
	}
	return nil
}

// install starts and registers the webhooks of a storm, and creates its quota.
func (p *controlPlanes) install(ctx context.Context, s stormScenario) error {
	if s.webhook != nil {
		r, err := p.webhookFor(ctx, s.plane, s.webhook)
		if err != nil {
			return err
		}
		if err := createQuota(ctx, p.policies[s.plane], s.namespace(), s.limit); err != nil {
			return err
		}
		err = p.clusters[s.plane].InstallWebhooks(ctx, cluster.Webhooks{
			URL: r.URL, CABundle: r.CA(), ExemptUser: replica.User, Mutating: true, Validating: true, Namespace: s.namespace(),
		})
		if err != nil {
			return err
		}
	}
	if !s.slow {
		return nil
	}
	r, err := p.webhookFor(ctx, s.plane, &webhook{plainWebhook, []string{"--delay=" + slowAnswer.String()}})
	if err != nil {
		return err
	}
	return p.clusters[s.plane].InstallValidating(ctx, slowConfiguration(r, s.namespace()), s.namespace())
}

// webhookFor returns a webhook of a control plane, and starts it first if it does not run yet.
func (p *controlPlanes) webhookFor(ctx context.Context, which plane, w *webhook) (*replica.Replica, error) {
	key := fmt.Sprint(which, w.program, w.flags)
	if r := p.webhooks[key]; r != nil {
		return r, nil
	}
	r, err := replica.Start(ctx, p.clusters[which], p.programs[w.program], append([]string{"--shutdown-delay=0s"}, w.flags...)...)
	if err != nil {
		return nil, err
	}
	p.webhooks[key] = r
	p.stoppers = append(p.stoppers, r.Stop)
	return r, nil
}

// slowConfiguration returns the configuration of slowWebhook for the Events of a namespace.
func slowConfiguration(r *replica.Replica, namespace string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "." + slowWebhook},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         namespace + "." + slowWebhook,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new(r.URL + "/validate"), CABundle: r.CA()},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"events"}},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			FailurePolicy:           new(admissionregistrationv1.Ignore),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}
