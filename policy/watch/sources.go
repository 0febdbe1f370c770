// Package watch keeps a policy.Set up to date with the API server.
package watch

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch/feed"
)

// Source lists and watches the objects of one resource.
type Source = feed.Source

// Sources has the sources of a Cache.
type Sources struct {
	// Rules return *Rule, each of one kind.
	Rules map[string]Source
	// Namespaces returns *metav1.PartialObjectMetadata.
	Namespaces Source
}

// NewSources returns the Sources of a cluster. They read only the metadata of namespaces.
func NewSources(config *rest.Config) (Sources, error) {
	known := runtime.NewScheme()
	for kind := range v1alpha1.Resources() {
		known.AddKnownTypeWithName(v1alpha1.GroupVersion().WithKind(kind), &Rule{})
	}
	metav1.AddToGroupVersion(known, v1alpha1.GroupVersion())
	metav1.AddToGroupVersion(known, corev1.SchemeGroupVersion) // for errors
	rules, err := feed.Client(config, v1alpha1.GroupVersion(), known)
	if err != nil {
		return Sources{}, err
	}
	s := Sources{Rules: map[string]Source{}}
	for kind, r := range v1alpha1.Resources() {
		s.Rules[kind] = ruleSource{rules, r.Resource}
	}
	s.Namespaces, err = feed.Metadata(config, corev1.SchemeGroupVersion.WithResource("namespaces"))
	return s, err
}

type ruleSource struct {
	client   rest.Interface
	resource string
}

var _ Source = ruleSource{}

func (s ruleSource) request(o *metav1.ListOptions) *rest.Request {
	return s.client.Get().Resource(s.resource).SpecificallyVersionedParams(o, scheme.ParameterCodec, corev1.SchemeGroupVersion)
}

// List implements Source.
func (s ruleSource) List(ctx context.Context, namespace string, o metav1.ListOptions, take func(metav1.Object)) (metav1.ListMeta, error) {
	return feed.ReadList(ctx, s.request(&o).NamespaceIfScoped(namespace, namespace != ""), func(item []byte) error {
		r := &Rule{}
		if err := r.UnmarshalJSON(item); err != nil {
			return err
		}
		take(r)
		return nil
	})
}

// Watch implements Source.
func (s ruleSource) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return s.request(&o).Watch(ctx)
}
