// Package brake pulls and releases the emergency brake, a policy that refuses all Events except Warnings, with the user's own rights.
package brake

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// fieldManager owns the fields of a policy that Pull applied.
const fieldManager = "eventquota-brake"

// Brake is the emergency brake of the cluster or of a namespace.
type Brake struct {
	client dynamic.ResourceInterface
	policy *unstructured.Unstructured
}

// New makes the brake of a namespace, an EventPolicy, or, if namespace is empty, that of the cluster, a ClusterEventPolicy.
func New(config *rest.Config, namespace string) (*Brake, error) {
	b := &Brake{policy: &unstructured.Unstructured{}}
	if err := yaml.Unmarshal(manifests.EmergencyBrake(), b.policy); err != nil {
		return nil, fmt.Errorf("read the emergency brake: %w", err)
	}
	if namespace != "" {
		b.policy.SetKind(v1alpha1.KindEventPolicy)
		b.policy.SetNamespace(namespace)
		unstructured.RemoveNestedField(b.policy.Object, "spec", "tier") // only policies of the cluster have a tier
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	resource := client.Resource(v1alpha1.Resources()[b.policy.GetKind()])
	b.client = resource
	if namespace != "" {
		b.client = resource.Namespace(namespace)
	}
	return b, nil
}

// Description describes the Events that the brake refuses.
func (b *Brake) Description() string {
	if namespace := b.policy.GetNamespace(); namespace != "" {
		return "all Events except Warnings in namespace " + namespace
	}
	return "all Events except Warnings in all namespaces"
}

// YAML returns the policy that Pull applies.
func (b *Brake) YAML() string {
	content, _ := yaml.Marshal(b.policy.Object) // it was read from YAML
	return string(content)
}

// ReleaseCommand returns the command that releases the brake.
func (b *Brake) ReleaseCommand() string {
	command := "kubectl delete " + v1alpha1.Resources()[b.policy.GetKind()].Resource + " " + b.policy.GetName()
	if namespace := b.policy.GetNamespace(); namespace != "" {
		command += " -n " + namespace
	}
	return command
}

// Pulled reports whether a policy of its name exists.
func (b *Brake) Pulled(ctx context.Context) (bool, error) {
	_, err := b.client.Get(ctx, b.policy.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the emergency brake: %w", err)
	}
	return true, nil
}

// Pull applies the policy by server-side apply. It fails if another field manager has set one of its fields to another value.
func (b *Brake) Pull(ctx context.Context) error {
	if _, err := b.client.Apply(ctx, b.policy.GetName(), b.policy, metav1.ApplyOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("pull the emergency brake: %w", err)
	}
	return nil
}

// Release deletes the policy.
func (b *Brake) Release(ctx context.Context) error {
	if err := b.client.Delete(ctx, b.policy.GetName(), metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("release the emergency brake: %w", err)
	}
	return nil
}
