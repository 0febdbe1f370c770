// Package policyfile reads policies from files, and from a cluster as it is now.
package policyfile

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/eventquota/eventquota/cmd/webhook/text"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Policies are policies, and namespaces by their labels. They are for one goroutine at a time.
type Policies struct {
	decoder    runtime.Decoder
	compiler   *policy.Compiler
	known      map[policy.Identity]bool
	cluster    []*policy.Policy
	own        map[string][]*policy.Policy
	namespaces map[string]labels.Set
}

// New makes Policies without any.
func New() (*Policies, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, err
	}
	return &Policies{
		decoder:  serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(),
		compiler: compiler, known: map[policy.Identity]bool{},
		own: map[string][]*policy.Policy{}, namespaces: map[string]labels.Set{},
	}, nil
}

func (p *Policies) take(object runtime.Object) error {
	switch o := object.(type) {
	case *v1alpha1.EventPolicy:
		if o.Namespace == "" {
			return fmt.Errorf("EventPolicy %s: %w", o.Name, field.Required(field.NewPath("metadata", "namespace"), "it governs one namespace"))
		}
		compiled, errs := p.compiler.EventPolicy(o)
		return p.keep(v1alpha1.KindEventPolicy, o, compiled, errs)
	case *v1alpha1.ClusterEventPolicy:
		compiled, errs := p.compiler.ClusterEventPolicy(o)
		return p.keep(v1alpha1.KindClusterEventPolicy, o, compiled, errs)
	case *corev1.Namespace:
		p.namespaces[o.Name] = labels.Set(o.Labels)
		return nil
	case *corev1.List:
		for i := range o.Items {
			if err := p.Decode(o.Items[i].Raw); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	return fmt.Errorf("kind %s: must be EventPolicy, ClusterEventPolicy, Namespace or List of them",
		object.GetObjectKind().GroupVersionKind().Kind)
}

// keep takes in a policy, or says what is wrong with it.
func (p *Policies) keep(kind string, o metav1.Object, compiled *policy.Policy, errs field.ErrorList) error {
	identity := policy.Identity{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	if o.GetName() == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), ""))
	}
	if p.known[identity] {
		errs = append(errs, field.Duplicate(field.NewPath("metadata", "name"), o.GetName()))
	}
	if len(errs) > 0 {
		return fmt.Errorf("%s: %w", identity, text.OneLine(errs.ToAggregate()))
	}
	p.known[identity] = true
	if identity.Namespace == "" {
		p.cluster = append(p.cluster, compiled)
		return nil
	}
	p.own[identity.Namespace] = append(p.own[identity.Namespace], compiled)
	return nil
}

// TakeNamespaces takes over the namespaces of others where p has none of its own.
func (p *Policies) TakeNamespaces(others *Policies) {
	if len(p.namespaces) == 0 {
		p.namespaces = others.namespaces
	}
}

// Set is all that was taken in.
func (p *Policies) Set() *policy.Set {
	namespaces := map[string]policy.Namespace{}
	for name, ls := range p.namespaces {
		// The API server sets it.
		all := labels.Merge(ls, labels.Set{corev1.LabelMetadataName: name})
		namespaces[name] = policy.Namespace{Labels: all, Policies: p.own[name]}
	}
	for name, own := range p.own {
		if _, known := p.namespaces[name]; !known {
			namespaces[name] = policy.Namespace{Policies: own}
		}
	}
	fallback := policy.Default()
	return policy.NewSet(&fallback, p.cluster, namespaces)
}
