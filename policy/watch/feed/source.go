package feed

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	kjson "sigs.k8s.io/json"
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

// Page reads a page of the objects of a namespace, or of all for "", and has each taken in as it comes. With the continue
// token of what it returns, the next page is read.
func Page(ctx context.Context, s Source, namespace string, o metav1.ListOptions, take func(metav1.Object)) (metav1.ListMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	o.Limit = pageSize
	return s.List(ctx, namespace, o, take)
}

// Client makes a client of one API that reads JSON. known has the types that it decodes.
func Client(config *rest.Config, version schema.GroupVersion, known *runtime.Scheme) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/apis", &version
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientFor(config)
}

// Metadata gives *metav1.PartialObjectMetadata of a resource: the API server is asked for no more.
func Metadata(config *rest.Config, r schema.GroupVersionResource) (Source, error) {
	known := runtime.NewScheme()
	metav1.AddToGroupVersion(known, r.GroupVersion())
	metav1.AddToGroupVersion(known, schema.GroupVersion{Version: "v1"}) // errors
	client, err := Client(config, r.GroupVersion(), known)
	if err != nil {
		return nil, err
	}
	watched, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return metadataSource{r.Resource, client, watched.Resource(r)}, nil
}

type metadataSource struct {
	resource    string
	client      rest.Interface
	watchClient metadata.Getter
}

var _ Source = metadataSource{}

// acceptMetadata asks for no more of each object of a list. An API server that cannot leave out the rest sends it too.
const acceptMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// List implements Source.
func (s metadataSource) List(ctx context.Context, namespace string, o metav1.ListOptions, take func(metav1.Object)) (metav1.ListMeta, error) {
	request := s.client.Get().Resource(s.resource).NamespaceIfScoped(namespace, namespace != "").
		SpecificallyVersionedParams(&o, scheme.ParameterCodec, schema.GroupVersion{Version: "v1"})
	return ReadList(ctx, request.SetHeader("Accept", acceptMetadata), func(item []byte) error {
		n := &metav1.PartialObjectMetadata{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(item, n); err != nil {
			return err
		}
		take(n)
		return nil
	})
}

// Watch implements Source.
func (s metadataSource) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return s.watchClient.Watch(ctx, o)
}
