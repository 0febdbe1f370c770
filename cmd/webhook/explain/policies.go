package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// policiesFor are the policies that may govern Events of a namespace, as they are
// now, and notes about those that are not valid.
func policiesFor(ctx context.Context, config *rest.Config, namespace string) (*policy.Set, []string, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	p, err := policyfile.New()
	if err != nil {
		return nil, nil, err
	}
	var notes []string
	take := func(u *unstructured.Unstructured) error {
		document, err := json.Marshal(u.Object)
		if err != nil {
			return err
		}
		if err := p.Decode(document); err != nil {
			notes = append(notes, fmt.Sprintf("%v: replicas go on with the last version that was valid, if they have seen one, and here it is left out", err))
		}
		return nil
	}
	for _, resource := range []dynamic.ResourceInterface{
		client.Resource(v1alpha1.ClusterEventPolicies()),
		client.Resource(v1alpha1.EventPolicies()).Namespace(namespace),
	} {
		list, err := resource.List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return p.Set(), []string{"the cluster does not know policies: the built-in default governs"}, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("list policies: %w", err)
		}
		for i := range list.Items {
			if err := take(&list.Items[i]); err != nil {
				return nil, nil, err
			}
		}
	}
	space, err := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("get namespace: %w", err)
	}
	if err := take(space); err != nil {
		return nil, nil, err
	}
	return p.Set(), notes, nil
}

// why says in words why a policy governs an Event that it matches: it was asked
// before all others that match.
func why(p *policy.Policy) string {
	var parts []string
	switch {
	case p.Identity.Kind == "":
		return "no policy matches: the built-in default"
	case p.Match.Tier != "":
		parts = append(parts, fmt.Sprintf("tier %s", p.Match.Tier))
	default:
		parts = append(parts, "of the namespace")
	}
	parts = append(parts, fmt.Sprintf("priority %d", p.Match.Priority))
	var names []string
	for _, c := range p.Match.Conditions {
		names = append(names, c.Name)
	}
	switch len(names) {
	case 0:
		parts = append(parts, "no conditions")
	case 1:
		parts = append(parts, "condition "+names[0]+" holds")
	default:
		parts = append(parts, "conditions "+strings.Join(names, ", ")+" hold")
	}
	if p.Action != policy.Limit {
		parts = append(parts, "action "+string(p.Action))
	}
	return strings.Join(parts, ", ")
}
