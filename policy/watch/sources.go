// Package watch keeps a policy.Set up to date with the API server.
package watch

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	// pageSize is how many objects of a list are asked for at once. All that a page has is in memory until it has been taken
	// in, and an object may be of 1.5 MiB.
	pageSize = 5
	// pageTimeout bounds the time in which a page is read.
	pageTimeout = time.Minute
)

// Source is where the objects of one resource come from.
type Source interface {
	// List lists those of a namespace, or all for "".
	List(ctx context.Context, namespace string, o metav1.ListOptions) (runtime.Object, error)
	// Watch watches all.
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Sources are those of a Cache.
type Sources struct {
	// Rules give *Rule, each of one kind.
	Rules map[string]Source
	// Namespaces gives *metav1.PartialObjectMetadata.
	Namespaces Source
}

// NewSources are Sources of a cluster. They read only the metadata of namespaces.
func NewSources(rules *rest.Config, namespaces metadata.Interface) (Sources, error) {
	client, err := newRuleClient(rules)
	if err != nil {
		return Sources{}, err
	}
	s := Sources{Rules: map[string]Source{}}
	for kind, r := range v1alpha1.Resources() {
		s.Rules[kind] = ruleSource{client, r.Resource}
	}
	s.Namespaces = namespaceSource{namespaces.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))}
	return s, nil
}

// newRuleClient makes a client that decodes Rules.
func newRuleClient(config *rest.Config) (rest.Interface, error) {
	version, known := v1alpha1.GroupVersion(), runtime.NewScheme()
	for kind := range v1alpha1.Resources() {
		known.AddKnownTypeWithName(version.WithKind(kind), &Rule{})
		known.AddKnownTypeWithName(version.WithKind(kind+"List"), &RuleList{})
	}
	metav1.AddToGroupVersion(known, version)
	metav1.AddToGroupVersion(known, corev1.SchemeGroupVersion) // for what is no rule: errors
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/apis", &version
	config.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientFor(config)
}

type ruleSource struct {
	client   rest.Interface
	resource string
}

var _ Source = ruleSource{}

func (s ruleSource) request(namespace string, o *metav1.ListOptions) *rest.Request {
	return s.client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(s.resource).
		SpecificallyVersionedParams(o, scheme.ParameterCodec, corev1.SchemeGroupVersion)
}

// List implements Source.
func (s ruleSource) List(ctx context.Context, namespace string, o metav1.ListOptions) (runtime.Object, error) {
	list := &RuleList{}
	return list, s.request(namespace, &o).Do(ctx).Into(list)
}

// Watch implements Source.
func (s ruleSource) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return s.request("", &o).Watch(ctx)
}

type namespaceSource struct {
	of metadata.Getter
}

var _ Source = namespaceSource{}

// List implements Source.
func (s namespaceSource) List(ctx context.Context, namespace string, o metav1.ListOptions) (runtime.Object, error) {
	return s.of.Namespace(namespace).List(ctx, o)
}

// Watch implements Source.
func (s namespaceSource) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return s.of.Watch(ctx, o)
}

// page reads a page of the objects of a namespace, or of all for "", and has them taken in one after the other. With the
// continue token of what it returns, the next page is read.
func page(ctx context.Context, s Source, namespace string, o metav1.ListOptions, take func(metav1.Object)) (metav1.ListInterface, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	o.Limit = pageSize
	list, err := s.List(ctx, namespace, o)
	if err != nil {
		return nil, err
	}
	read, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("read a list: %w", err)
	}
	return read, meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			take(object)
		}
		return err
	})
}
