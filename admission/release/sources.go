package release

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch/feed"
)

// NewSources returns the metadata of all emergency brakes of a cluster, by kind.
func NewSources(config *rest.Config) (map[string]feed.Source, error) {
	sources := map[string]feed.Source{}
	for _, kind := range []string{v1alpha1.KindClusterEventPolicy, v1alpha1.KindEventPolicy} {
		all, err := feed.Metadata(config, v1alpha1.Resources()[kind])
		if err != nil {
			return nil, err
		}
		sources[kind] = named{all}
	}
	return sources, nil
}

// named is the objects of a Source that have the name of emergency brakes. The API server selects them.
type named struct{ feed.Source }

var _ feed.Source = named{}

// List implements feed.Source.
func (n named) List(ctx context.Context, namespace string, o metav1.ListOptions, take func(metav1.Object)) (metav1.ListMeta, error) {
	return n.Source.List(ctx, namespace, selectBrakes(o), take)
}

// Watch implements feed.Source.
func (n named) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return n.Source.Watch(ctx, selectBrakes(o))
}

func selectBrakes(o metav1.ListOptions) metav1.ListOptions {
	o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.BrakeName).String()
	return o
}
