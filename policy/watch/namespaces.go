package watch

import (
	"context"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch/feed"
)

// updateNamespace adds or updates a namespace.
func (c *Cache) updateNamespace(object metav1.Object) {
	o, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putNamespace(o)
}

// putNamespace stores the parts of a namespace that are kept. The caller holds c.mu.
func (c *Cache) putNamespace(o *metav1.PartialObjectMetadata) {
	n, before := &policy.Namespace{}, c.namespaces[o.Name]
	n.SetMetadata(o.Labels, o.Annotations, c.selectedLabels)
	if c.namespaces[o.Name] = n; before == nil || !reflect.DeepEqual(before, n) {
		c.markDirty(o.Name)
	}
}

func (c *Cache) deleteNamespace(object metav1.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.namespaces, object.GetName())
	c.markDirty(object.GetName())
}

// namespaceListing collects a list of all namespaces.
type namespaceListing struct {
	cache *Cache
	found map[string]bool
}

func (c *Cache) listNamespaces() feed.Listing { return &namespaceListing{c, map[string]bool{}} }

// Add implements feed.Listing. It uses each namespace at once, before the list is complete.
func (l *namespaceListing) Add(object metav1.Object) {
	l.found[object.GetName()] = true
	l.cache.updateNamespace(object)
}

// Done implements feed.Listing.
func (l *namespaceListing) Done() {
	c := l.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.namespaces {
		if !l.found[name] {
			delete(c.namespaces, name)
			c.markDirty(name)
		}
	}
}

// setSelectedLabels records the labels by which the cluster's rules select namespaces. It queues namespaces that may lack one of
// these labels in the cache to be read again. The caller holds c.mu.
func (c *Cache) setSelectedLabels(rules policy.Rules) {
	selected, more := rules.SelectedLabels(), false
	for name := range selected {
		more = more || !c.selectedLabels[name]
	}
	c.selectedLabels = selected
	if !more {
		return
	}
	for name, n := range c.namespaces {
		if n.PartialLabels {
			c.rereadQueue.Add(name)
		}
	}
}

// rereadNamespace reads a namespace again, unless it has changed in the meantime. It returns the time until a retry, or 0 for
// none.
func (c *Cache) rereadNamespace(ctx context.Context, name string) time.Duration {
	c.mu.Lock()
	before := c.namespaces[name]
	c.mu.Unlock()
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	_, err := feed.Page(ctx, c.sources.Namespaces, "", only, func(object metav1.Object) {
		c.mu.Lock()
		defer c.mu.Unlock()
		o, ok := object.(*metav1.PartialObjectMetadata)
		if ok && o.Name == name && before != nil && c.namespaces[name] == before {
			c.putNamespace(o)
		}
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("Could not read a namespace again", "namespace", name, "reason", err.Error())
		return scanRetry
	}
	return 0
}
