// Package watch keeps a policy.Set up to date with the API server.
package watch

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	kjson "sigs.k8s.io/json"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	// pageSize is how many objects of a list are asked for at once. One of them is in memory at a time, and each may be of
	// 1.5 MiB.
	pageSize = 100
	// pageTimeout bounds the time in which a page is read.
	pageTimeout = time.Minute
)

// Source is where the objects of one resource come from.
type Source interface {
	// List lists those of a namespace, or all for "". It has each taken in as it comes, also those before an error.
	List(ctx context.Context, namespace string, o metav1.ListOptions, take func(metav1.Object)) (metav1.ListMeta, error)
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
func NewSources(config *rest.Config) (Sources, error) {
	known := runtime.NewScheme()
	for kind := range v1alpha1.Resources() {
		known.AddKnownTypeWithName(v1alpha1.GroupVersion().WithKind(kind), &Rule{})
	}
	metav1.AddToGroupVersion(known, v1alpha1.GroupVersion())
	metav1.AddToGroupVersion(known, corev1.SchemeGroupVersion) // for what is no rule: errors
	rules, err := newClient(config, "/apis", v1alpha1.GroupVersion(), known)
	if err != nil {
		return Sources{}, err
	}
	core, err := newClient(config, "/api", corev1.SchemeGroupVersion, known)
	if err != nil {
		return Sources{}, err
	}
	namespaces, err := metadata.NewForConfig(config)
	if err != nil {
		return Sources{}, err
	}
	s := Sources{Rules: map[string]Source{}}
	for kind, r := range v1alpha1.Resources() {
		s.Rules[kind] = ruleSource{rules, r.Resource}
	}
	resource := corev1.SchemeGroupVersion.WithResource("namespaces")
	s.Namespaces = namespaceSource{core, namespaces.Resource(resource)}
	return s, nil
}

func newClient(config *rest.Config, path string, version schema.GroupVersion, known *runtime.Scheme) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = path, &version
	config.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientFor(config)
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
	return readList(ctx, s.request(&o).NamespaceIfScoped(namespace, namespace != ""), func(item []byte) error {
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

type namespaceSource struct {
	client  rest.Interface
	watched metadata.Getter
}

var _ Source = namespaceSource{}

// onlyMetadata asks for no more of each object of a list. An API server that cannot leave out the rest sends it too.
const onlyMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// List implements Source.
func (s namespaceSource) List(ctx context.Context, _ string, o metav1.ListOptions, take func(metav1.Object)) (metav1.ListMeta, error) {
	request := s.client.Get().Resource("namespaces").SpecificallyVersionedParams(&o, scheme.ParameterCodec, corev1.SchemeGroupVersion)
	return readList(ctx, request.SetHeader("Accept", onlyMetadata), func(item []byte) error {
		n := &metav1.PartialObjectMetadata{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(item, n); err != nil {
			return err
		}
		take(n)
		return nil
	})
}

// Watch implements Source.
func (s namespaceSource) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return s.watched.Watch(ctx, o)
}

// page reads a page of the objects of a namespace, or of all for "", and has each taken in as it comes. With the continue
// token of what it returns, the next page is read.
func page(ctx context.Context, s Source, namespace string, o metav1.ListOptions, take func(metav1.Object)) (metav1.ListMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	o.Limit = pageSize
	return s.List(ctx, namespace, o, take)
}
