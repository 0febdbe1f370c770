// Package policyfile reads policies and quotas from files and from a cluster.
package policyfile

import (
	"errors"
	"maps"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/policy"
)

// Rules holds policies, quotas and the metadata of namespaces. A namespace without labels was only named by its rules.
// Rules is not safe for concurrent use.
type Rules struct {
	Cluster    policy.Rules
	Namespaces map[string]policy.Namespace
	// Invalid has an error for each object that was left out. Errors of files are of type *InvalidError.
	Invalid []error
	// Objects are the policies and quotas of files in the order of reading, valid or not.
	Objects []*Object
	// Unrelated counts the other content of files.
	Unrelated Unrelated

	compiler    *policy.Compiler
	fields      fields
	namespacing namespacing
	seen        map[policy.Identity]bool
	namespaced  map[scope][]namespacedRule // every rule of a namespace, in force or not
}

// New returns empty Rules.
func New() (*Rules, error) {
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, err
	}
	compiler.Strict = true
	fields, err := newFields()
	if err != nil {
		return nil, err
	}
	return (&Rules{compiler: compiler, fields: fields}).empty(), nil
}

// empty returns Rules without content that share the compiler of r. Making the compiler takes most of the time of New.
func (r *Rules) empty() *Rules {
	return &Rules{
		compiler: r.compiler, fields: r.fields,
		seen: map[policy.Identity]bool{}, namespaced: map[scope][]namespacedRule{}, Namespaces: map[string]policy.Namespace{},
	}
}

// Decode adds the valid objects of YAML or JSON documents and returns an error for the others. A document holds an object,
// a list of objects, or nothing.
func (r *Rules) Decode(content []byte) error {
	before := len(r.Invalid)
	for _, doc := range document.Parse("", content) {
		r.addDocument(doc, false)
	}
	invalid := r.Invalid[before:]
	r.Invalid = r.Invalid[:before:before]
	return errors.Join(invalid...)
}

// UseNamespacesOf takes the labels and annotations of namespaces from others if r has none.
func (r *Rules) UseNamespacesOf(others *Rules) {
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

// KnownNamespaces returns the namespaces with the metadata that replicas would keep of them.
func (r *Rules) KnownNamespaces() map[string]policy.Namespace {
	selected, known := r.Cluster.SelectedLabels(), maps.Clone(r.Namespaces)
	for name, n := range known {
		if n.Labels != nil {
			n.SetMetadata(n.Labels, n.Annotations, selected)
			known[name] = n
		}
	}
	return known
}

// Set returns a Set of all rules that were read and the built-in default.
func (r *Rules) Set() *policy.Set {
	return policy.NewSet(policy.Default(), r.Cluster, r.KnownNamespaces())
}

// addNamespace adds the labels and annotations of a namespace.
func (r *Rules) addNamespace(name string, own, annotations map[string]string) {
	n := r.Namespaces[name]
	// The API server sets this label on every namespace.
	n.Labels = labels.Merge(own, labels.Set{nameLabel: name})
	n.Annotations = annotations
	r.Namespaces[name] = n
}
