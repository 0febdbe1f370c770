// Package watch keeps a policy.Set up to date with the API server.
package watch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	// pageSize is how many objects of a list are asked for at once. One is decoded at a time, and little of it is kept.
	pageSize = 200
	// pageTimeout bounds the time in which a page is read.
	pageTimeout = time.Minute
	// watchTimeout is how long a watch lasts at least, and at most twice that: so replicas spread over API servers.
	watchTimeout = 5 * time.Minute
)

// Source is where the objects of one resource come from. Whatever they have, it gives no more of them than a Cache reads.
type Source interface {
	// Page lists objects in pages: the first for an empty next, and the one after a Page for its Next. They are those of one
	// namespace, or all for "". Of namespaces it is the one with that name. take gets one after the other as they are read.
	Page(ctx context.Context, namespace, next string, take func(metav1.Object)) (Page, error)
	// Watch watches all objects since a version. What it sends are objects as in a Page, bookmarks with a version alone, and
	// errors as *metav1.Status.
	Watch(ctx context.Context, version string) (watch.Interface, error)
}

// Page is a part of a list.
type Page struct {
	// Version is that of the whole list.
	Version string
	// Next is for the page after it, or empty.
	Next string
}

// Sources are those of a Cache.
type Sources struct {
	// Rules give *unstructured.Unstructured, each of one kind.
	Rules map[string]Source
	// Namespaces gives *metav1.PartialObjectMetadata.
	Namespaces Source
}

// NewSources are Sources of a cluster. They read only the metadata of namespaces.
func NewSources(config *rest.Config) (Sources, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // of errors alone
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return Sources{}, err
	}
	s := Sources{Rules: map[string]Source{}}
	for kind, r := range v1alpha1.Resources() {
		s.Rules[kind] = &served[ruleWire]{client: client, of: r, accept: "application/json", decode: func(w *ruleWire) metav1.Object { return w.object(kind) }}
	}
	s.Namespaces = &served[namespaceWire]{
		client: client, of: corev1.SchemeGroupVersion.WithResource("namespaces"), named: true,
		accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
		decode: (*namespaceWire).object,
	}
	return s, nil
}

// served is a resource of an API server, of which a Wire is decoded. client-go would decode a whole page, or all of a
// list that it streams, with everything that its objects have, before anyone could take less.
type served[Wire any] struct {
	client rest.Interface
	of     schema.GroupVersionResource
	accept string
	decode func(*Wire) metav1.Object
	named  bool // a namespace is one of its objects
}

var _ Source = (*served[ruleWire])(nil)

func (s *served[Wire]) request(namespace string, o *metav1.ListOptions) *rest.Request {
	prefix := "/apis/" + s.of.Group
	if s.of.Group == "" {
		prefix = "/api"
	}
	if s.named && namespace != "" {
		o.FieldSelector, namespace = fields.OneTermEqualSelector(metav1.ObjectNameField, namespace).String(), ""
	}
	return s.client.Get().AbsPath(prefix, s.of.Version).NamespaceIfScoped(namespace, namespace != "").Resource(s.of.Resource).
		SetHeader("Accept", s.accept).SpecificallyVersionedParams(o, scheme.ParameterCodec, corev1.SchemeGroupVersion)
}

// Page implements Source.
func (s *served[Wire]) Page(ctx context.Context, namespace, next string, take func(metav1.Object)) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	body, err := s.request(namespace, &metav1.ListOptions{Limit: pageSize, Continue: next}).Stream(ctx)
	if err != nil {
		return Page{}, err
	}
	defer body.Close()
	list, err := decodeList(body, func(w *Wire) { take(s.decode(w)) })
	if err != nil {
		return Page{}, fmt.Errorf("decode a list of %s: %w", s.of.Resource, err)
	}
	return Page{Version: list.ResourceVersion, Next: list.Continue}, nil
}

// Watch implements Source.
func (s *served[Wire]) Watch(ctx context.Context, version string) (watch.Interface, error) {
	seconds := int64(watchTimeout.Seconds() * (1 + rand.Float64())) //nolint:gosec // it is no secret
	o := &metav1.ListOptions{Watch: true, AllowWatchBookmarks: true, ResourceVersion: version, TimeoutSeconds: &seconds}
	body, err := s.request("", o).Stream(ctx)
	if err != nil {
		return nil, err
	}
	return watch.NewStreamWatcher(newFrames(body, s.decode), failures{}), nil
}
