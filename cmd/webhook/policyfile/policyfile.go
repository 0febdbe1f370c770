// Package policyfile reads policies and quotas from files, and from a cluster as it is now.
package policyfile

import (
	"errors"
	"maps"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/policy"
)

// Rules are policies and quotas, and what is known of namespaces: one without labels is only known from its rules.
// They are for one goroutine at a time.
type Rules struct {
	Cluster    policy.Rules
	Namespaces map[string]policy.Namespace
	// Invalid says what was left out of files and clusters, and why. Of files each is a *InvalidError.
	Invalid []error
	// Objects are the policies and quotas of files, valid or not, in their order.
	Objects []*Object
	// Unrelated is what files have beside them.
	Unrelated Unrelated

	compiler    *policy.Compiler
	fields      fields
	namespacing namespacing
	seen        map[policy.Identity]bool
	namespaced  map[scope][]namespacedRule // all of them, whether in force or not
}

// New makes Rules without any.
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

// empty is r without any rules. Making the compiler takes most of the time of New.
func (r *Rules) empty() *Rules {
	return &Rules{
		compiler: r.compiler, fields: r.fields,
		seen: map[policy.Identity]bool{}, namespaced: map[scope][]namespacedRule{}, Namespaces: map[string]policy.Namespace{},
	}
}

// Decode adds what is valid in a document of YAML or JSON, and says what is not. It has an object, a list of them, or
// nothing.
func (r *Rules) Decode(content []byte) error {
	before := len(r.Invalid)
	for _, doc := range document.Parse("", content) {
		r.addDocument(doc, false)
	}
	invalid := r.Invalid[before:]
	r.Invalid = r.Invalid[:before:before]
	return errors.Join(invalid...)
}

// UseNamespacesOf uses the labels and annotations of others' namespaces if r has none.
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

// KnownNamespaces are the namespaces with what replicas know of them.
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

// Set is all that was read.
func (r *Rules) Set() *policy.Set {
	return policy.NewSet(policy.Default(), r.Cluster, r.KnownNamespaces())
}

// addNamespace adds the labels and annotations of a namespace.
func (r *Rules) addNamespace(name string, has, annotations map[string]string) {
	n := r.Namespaces[name]
	// The API server sets its name as a label.
	n.Labels = labels.Merge(has, labels.Set{nameLabel: name})
	n.Annotations = annotations
	r.Namespaces[name] = n
}
