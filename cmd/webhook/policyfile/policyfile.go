// Package policyfile reads policies and quotas from files, and from a cluster as it is now.
package policyfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

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

	compiler *policy.Compiler
	known    map[policy.Identity]bool
	own      map[place][]ownRule // all of them, whether in force or not
}

// New makes Rules without any.
func New() (*Rules, error) {
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, err
	}
	compiler.Strict = true
	return &Rules{compiler: compiler, known: map[policy.Identity]bool{}, own: map[place][]ownRule{}, Namespaces: map[string]policy.Namespace{}}, nil
}

// Decode adds what is valid in a document of YAML or JSON, and says what is not. It has an object, a list of them, or
// nothing.
func (r *Rules) Decode(document []byte) error { return errors.Join(r.decode(document)...) }

func (r *Rules) decode(document []byte) []error {
	asJSON, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return []error{text.OneLine(err)}
	}
	if bytes.Equal(asJSON, []byte("null")) {
		return nil
	}
	object, _, err := unstructured.UnstructuredJSONScheme.Decode(asJSON, nil, nil)
	if err != nil {
		return []error{text.OneLine(err)}
	}
	list, ok := object.(*unstructured.UnstructuredList)
	if !ok {
		if err := r.add(object.(*unstructured.Unstructured)); err != nil { //nolint:errcheck // it decodes nothing else
			return []error{text.OneLine(err)}
		}
		return nil
	}
	var invalid []error
	for i := range list.Items {
		if err := r.add(&list.Items[i]); err != nil {
			invalid = append(invalid, fmt.Errorf("items[%d]: %w", i, text.OneLine(err)))
		}
	}
	return invalid
}

// add adds a namespace, policy or quota.
func (r *Rules) add(u *unstructured.Unstructured) error {
	identity := policy.Identity{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
	kind := u.GroupVersionKind()
	if kind == corev1.SchemeGroupVersion.WithKind("Namespace") {
		n := r.Namespaces[identity.Name]
		// The API server sets its name as a label.
		n.Labels = labels.Merge(u.GetLabels(), labels.Set{corev1.LabelMetadataName: identity.Name})
		n.Annotations = u.GetAnnotations()
		r.Namespaces[identity.Name] = n
		return nil
	}
	if _, ok := v1alpha1.Resources()[kind.Kind]; !ok || kind.GroupVersion() != v1alpha1.GroupVersion() {
		return fmt.Errorf("kind %s: must be EventPolicy, ClusterEventPolicy, EventQuota, ClusterEventQuota, Namespace or List of them, "+
			"of %s or v1 and not of %s", kind.Kind, v1alpha1.GroupVersion(), kind.GroupVersion())
	}
	compiled, err := r.compiler.Compile(u)
	switch at := field.NewPath("metadata"); {
	case identity.Name == "":
		err = field.Required(at.Child("name"), "")
	case namespaced(kind.Kind) && identity.Namespace == "":
		err = field.Required(at.Child("namespace"), kind.Kind+" is for one namespace")
	case !namespaced(kind.Kind) && identity.Namespace != "":
		err = field.Forbidden(at.Child("namespace"), kind.Kind+" has none")
	case r.known[identity]:
		err = field.Duplicate(at.Child("name"), identity.Name)
	}
	own := namespaced(kind.Kind) && identity.Namespace != "" && !r.known[identity]
	r.known[identity] = true
	if own { // one that is not valid takes a place too
		err = cmp.Or(err, r.addOwn(u, compiled))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", identity, err)
	}
	if !own {
		r.Cluster.Add(compiled)
	}
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

// Known are the namespaces with what replicas know of them.
func (r *Rules) Known() map[string]policy.Namespace {
	selected, known := r.Cluster.SelectedLabels(), maps.Clone(r.Namespaces)
	for name, n := range known {
		if n.Labels != nil {
			n.Keep(n.Labels, n.Annotations, selected)
			known[name] = n
		}
	}
	return known
}

// Set is all that was read.
func (r *Rules) Set() *policy.Set { return policy.NewSet(policy.Default(), r.Cluster, r.Known()) }
