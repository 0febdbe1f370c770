// Package policyfile reads policies from files, and from a cluster as it is now.
package policyfile

import (
	"bytes"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/eventquota/eventquota/cmd/webhook/text"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Policies are policies, and the labels of namespaces. They are for one goroutine at a time.
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

// Decode adds what a document has: an object, a list of them, or nothing.
func (p *Policies) Decode(document []byte) error {
	asJSON, err := utilyaml.ToJSON(document)
	if err != nil {
		return text.OneLine(err)
	}
	if bytes.Equal(bytes.TrimSpace(asJSON), []byte("null")) {
		return nil
	}
	object, _, err := p.decoder.Decode(document, nil, nil)
	if err != nil {
		return text.OneLine(err)
	}
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

// keep adds a policy, or says what is wrong with it.
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
	} else {
		p.own[identity.Namespace] = append(p.own[identity.Namespace], compiled)
	}
	return nil
}

// TakeNamespaces uses the namespaces of others if p has none.
func (p *Policies) TakeNamespaces(others *Policies) {
	if len(p.namespaces) == 0 {
		p.namespaces = others.namespaces
	}
}

// Set is all that was read.
func (p *Policies) Set() *policy.Set {
	namespaces := map[string]policy.Namespace{}
	for name, own := range p.own {
		namespaces[name] = policy.Namespace{Policies: own}
	}
	for name, ls := range p.namespaces {
		all := labels.Merge(ls, labels.Set{corev1.LabelMetadataName: name}) // which the API server sets
		namespaces[name] = policy.Namespace{Labels: all, Policies: p.own[name]}
	}
	fallback := policy.Default()
	return policy.NewSet(&fallback, p.cluster, namespaces)
}
