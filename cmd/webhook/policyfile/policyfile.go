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

// Rules are policies and quotas, and what is known of namespaces: one without labels is only known from its rules.
// They are for one goroutine at a time.
type Rules struct {
	Cluster    policy.Rules
	Namespaces map[string]policy.Namespace
	// Invalid says what was left out of files and clusters, and why.
	Invalid []error

	decoder  runtime.Decoder
	compiler *policy.Compiler
	known    map[policy.Identity]bool
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
		compiler: compiler, known: map[policy.Identity]bool{}, Namespaces: map[string]policy.Namespace{},
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
		n := r.Namespaces[o.Name]
		// The API server sets its name as a label.
		n.Labels, n.Annotations = labels.Merge(o.Labels, labels.Set{corev1.LabelMetadataName: o.Name}), o.Annotations
		r.Namespaces[o.Name] = n
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
	switch at := field.NewPath("metadata", "namespace"); {
	case namespaced(kind) && identity.Namespace == "":
		errs = append(errs, field.Required(at, kind+" is for one namespace"))
	case !namespaced(kind) && identity.Namespace != "":
		errs = append(errs, field.Forbidden(at, kind+" has none"))
	}
	if identity.Name == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), ""))
	}
	if r.known[identity] {
		errs = append(errs, field.Duplicate(field.NewPath("metadata", "name"), identity.Name))
	}
	if len(errs) > 0 {
		return fmt.Errorf("%s: %w", identity, text.OneLine(errs.ToAggregate()))
	}
	r.known[identity] = true
	if !namespaced(kind) {
		r.Cluster.Add(compiled)
		return nil
	}
	n := r.Namespaces[identity.Namespace]
	n.Add(compiled)
	r.Namespaces[identity.Namespace] = n
	return nil
}

// namespaced reports whether rules of a kind are in a namespace.
func namespaced(kind string) bool {
	return kind == v1alpha1.KindEventPolicy || kind == v1alpha1.KindEventQuota
}

// TakeNamespaces uses the labels and annotations of others' namespaces if r has none.
func (r *Rules) TakeNamespaces(others *Rules) {
	for _, n := range r.Namespaces {
		if n.Labels != nil {
			return
		}
	}
	for name, n := range others.Namespaces {
		n.Rules = r.Namespaces[name].Rules
		r.Namespaces[name] = n
	}
}

// Set is all that was read.
func (r *Rules) Set() *policy.Set { return policy.NewSet(policy.Default(), r.Cluster, r.Namespaces) }
