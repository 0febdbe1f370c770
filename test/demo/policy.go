package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// quota limits the wide storm.
const quota = `apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: fair}
spec:
  limits: [{name: namespace, per: [Namespace], burst: 200, tokens: 10}]
`

// readyTimeout bounds the wait until the webhook reports that a policy is in force.
const readyTimeout = time.Minute

// applyPolicy applies a policy and waits until its status reports that it is in force. The webhook must be running.
func applyPolicy(ctx context.Context, config *rest.Config, manifest string) error {
	policy := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &policy.Object); err != nil {
		return fmt.Errorf("read the policy: %w", err)
	}
	if err := shipped.Apply(ctx, config, []*unstructured.Unstructured{policy}); err != nil {
		return err
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return false, err
		}
		return isReady(policy), nil
	})
	if err != nil {
		return fmt.Errorf("wait for policy %s: %w", policy.GetName(), err)
	}
	return nil
}

// isReady reports whether the status of a policy reports that it is in force.
func isReady(policy *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(policy.Object, "status", "conditions")
	for _, condition := range conditions {
		c, _ := condition.(map[string]any)
		if c["type"] == "Ready" {
			return c["status"] == "True" && c["observedGeneration"] == policy.GetGeneration()
		}
	}
	return false
}
