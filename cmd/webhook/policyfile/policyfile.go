// Package policyfile reads policies and quotas from files, and from a cluster as it is now.
package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Rules are policies, quotas, and the labels and annotations of namespaces. They are for one goroutine at a time.
type Rules struct {
	decoder    runtime.Decoder
	compiler   *policy.Compiler
	known      map[policy.Identity]bool
	cluster    policy.Rules
	own        map[string]policy.Rules     // by their namespaces
	namespaces map[string]policy.Namespace // without rules
}

// New makes Rules without any.
func New() (*Rules, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, err
	}
	return &Rules{
		decoder:  serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(),
		compiler: compiler, known: map[policy.Identity]bool{},
		own: map[string]policy.Rules{}, namespaces: map[string]policy.Namespace{},
	}, nil
}

// Decode adds what a document has: an object, a list of them, or nothing.
func (r *Rules) Decode(document []byte) error {
	for _, err := range r.decode(document) {
		return err
	}
	return nil
}

// decode adds what is valid in a document, and says what is not.
func (r *Rules) decode(document []byte) []error {
	asJSON, err := utilyaml.ToJSON(document)
	if err != nil {
		return []error{text.OneLine(err)}
	}
	if bytes.Equal(bytes.TrimSpace(asJSON), []byte("null")) {
		return nil
	}
	object, _, err := r.decoder.Decode(document, nil, nil)
	if err != nil {
		return []error{undecoded(asJSON, err)}
	}
	if list, ok := object.(*corev1.List); ok {
		var invalid []error
		for i := range list.Items {
			for _, err := range r.decode(list.Items[i].Raw) {
				invalid = append(invalid, fmt.Errorf("items[%d]: %w", i, err))
			}
		}
		return invalid
	}
	if err := r.add(object); err != nil {
		return []error{err}
	}
	return nil
}

// add adds an object, or says what is wrong with it.
func (r *Rules) add(object runtime.Object) error {
	switch o := object.(type) {
	case *v1alpha1.EventPolicy, *v1alpha1.ClusterEventPolicy, *v1alpha1.EventQuota, *v1alpha1.ClusterEventQuota:
		return r.keep(o)
	case *corev1.Namespace:
		// The API server sets its name as a label.
		ls := labels.Merge(o.Labels, labels.Set{corev1.LabelMetadataName: o.Name})
		r.namespaces[o.Name] = policy.Namespace{Labels: ls, Annotations: o.Annotations}
		return nil
	}
	return fmt.Errorf("kind %s: must be EventPolicy, ClusterEventPolicy, EventQuota, ClusterEventQuota, Namespace or List of them",
		object.GetObjectKind().GroupVersionKind().Kind)
}

// undecoded is err with the name of the object that has not been decoded, where it has one.
func undecoded(document []byte, err error) error {
	var o metav1.PartialObjectMetadata
	if json.Unmarshal(document, &o) != nil || o.Name == "" {
		return text.OneLine(err)
	}
	return fmt.Errorf("%s: %w", policy.Identity{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}, text.OneLine(err))
}

// keep adds a policy or quota, or says what is wrong with it.
func (r *Rules) keep(object runtime.Object) error {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	o, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	compiled, errs := r.compiler.Compile(object)
	identity := policy.Identity{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	clustered := kind == v1alpha1.KindClusterEventPolicy || kind == v1alpha1.KindClusterEventQuota
	switch at := field.NewPath("metadata", "namespace"); {
	case !clustered && identity.Namespace == "":
		errs = append(errs, field.Required(at, kind+" is for one namespace"))
	case clustered && identity.Namespace != "":
		errs = append(errs, field.Forbidden(at, kind+" has none"))
	}
	if o.GetName() == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), ""))
	}
	if r.known[identity] {
		errs = append(errs, field.Duplicate(field.NewPath("metadata", "name"), o.GetName()))
	}
	if len(errs) > 0 {
		return fmt.Errorf("%s: %w", identity, text.OneLine(errs.ToAggregate()))
	}
	r.known[identity] = true
	if clustered {
		r.cluster.Add(compiled)
		return nil
	}
	own := r.own[identity.Namespace]
	own.Add(compiled)
	r.own[identity.Namespace] = own
	return nil
}

// TakeNamespaces uses the namespaces of others if r has none.
func (r *Rules) TakeNamespaces(others *Rules) {
	if len(r.namespaces) == 0 {
		r.namespaces = others.namespaces
	}
}

// All are the rules of the cluster, and what is known of namespaces.
func (r *Rules) All() (cluster policy.Rules, namespaces map[string]policy.Namespace) {
	namespaces = map[string]policy.Namespace{}
	for name, own := range r.own {
		namespaces[name] = policy.Namespace{Rules: own}
	}
	for name, n := range r.namespaces {
		n.Rules = r.own[name]
		namespaces[name] = n
	}
	return r.cluster, namespaces
}

// Set is all that was read.
func (r *Rules) Set() *policy.Set {
	cluster, namespaces := r.All()
	return policy.NewSet(policy.Default(), cluster, namespaces)
}
