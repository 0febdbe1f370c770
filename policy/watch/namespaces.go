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

// updateNamespace takes in a namespace that is new or changed.
func (c *Cache) updateNamespace(object metav1.Object) {
	o, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putNamespace(o)
}

// putNamespace keeps what is kept of a namespace; c.mu is held.
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

// namespaceListing takes in a list of all namespaces.
type namespaceListing struct {
	cache *Cache
	found map[string]bool
}

func (c *Cache) listNamespaces() feed.Listing { return &namespaceListing{c, map[string]bool{}} }

// Add implements feed.Listing. What a list says is true before it is complete.
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

// setSelectedLabels notes by which labels the cluster's rules select namespaces, and has namespaces read again of which one of
// these may not be kept; c.mu is held.
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

// rereadNamespace takes in a namespace anew, unless it has changed meanwhile. It says after which time it is to be tried once more; 0
// for never.
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
