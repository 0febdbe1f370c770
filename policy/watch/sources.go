// Package watch keeps a policy.Set up to date with the API server.
package watch

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Sources are the informers of a Cache, which runs them: they must not run yet, and not be shared.
type Sources struct {
	// Rules give *unstructured.Unstructured, each of one resource: in a typed list, one object that cannot be
	// decoded would keep the others from being in force.
	Rules map[string]cache.SharedIndexInformer
	// Namespaces gives *metav1.PartialObjectMetadata.
	Namespaces cache.SharedIndexInformer
}

// NewSources are Sources of a cluster. They read only the metadata of namespaces.
func NewSources(rules dynamic.Interface, namespaces metadata.Interface) Sources {
	s := Sources{
		Rules: map[string]cache.SharedIndexInformer{},
		Namespaces: metadatainformer.NewFilteredMetadataInformer(
			namespaces, corev1.SchemeGroupVersion.WithResource("namespaces"), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
	}
	for _, r := range v1alpha1.Resources() {
		s.Rules[r.Resource] = dynamicinformer.NewFilteredDynamicInformer(rules, r, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	}
	return s
}

// complainEvery is the least time between two log lines that say that one kind
// of object cannot be watched. An informer tries again every minute or sooner.
const complainEvery = 10 * time.Minute

// The resources of tenants' rules.
const eventPolicies, eventQuotas = "eventpolicies", "eventquotas"

// complain logs once in a while why a kind of object cannot be watched, and notes a kind that the API server does
// not serve, as some never will.
func complain(resource string, unknown *atomic.Bool) cache.WatchErrorHandlerWithContext {
	seldom := &rate.Sometimes{Interval: complainEvery}
	return func(ctx context.Context, _ *cache.Reflector, err error) {
		log := logr.FromContextOrDiscard(ctx).WithValues("resource", resource)
		if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
			apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			log.V(1).Info("Watch has ended", "reason", err.Error())
			return // as watches do; the informer begins another
		}
		unknown.Store(apierrors.IsNotFound(err))
		log.V(1).Info("Watch failed", "reason", err.Error())
		seldom.Do(func() { log.Error(err, "Cannot be watched, trying again; what is known of it stays in force") })
	}
}

// strip removes what is never read of an object, to save memory: kubectl keeps a copy of all of it in an
// annotation. Conditions read the annotations of a namespace.
func strip(o any) (any, error) {
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata:
		o.Annotations, o.ManagedFields = bounded(o.Annotations), nil
	case *unstructured.Unstructured:
		o.SetAnnotations(nil)
		o.SetManagedFields(nil)
	}
	return o, nil
}

const (
	// annotationBytes is the longest annotation of a namespace that is kept, its name included, and
	// annotationsBytes how much of all of them, which go by their names.
	annotationBytes  = 512
	annotationsBytes = 4 << 10
)

func bounded(all map[string]string) map[string]string {
	kept, size := map[string]string{}, 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if n := len(name) + len(all[name]); n <= annotationBytes && size+n <= annotationsBytes {
			kept[name] = all[name]
			size += n
		}
	}
	return kept
}
