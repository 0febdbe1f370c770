package watch

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
)

const kindNamespace = "Namespace"

const (
	// MaxLabels is how many bytes of labels of a namespace are kept, their names included. They go by their names. Labels that
	// the cluster's rules select namespaces by are kept in any case.
	MaxLabels = 4 << 10
	// MaxAnnotations is how many bytes of its annotations are kept.
	MaxAnnotations = 4 << 10
	// MaxAnnotation is the longest annotation that is kept, its name included.
	MaxAnnotation = 512
)

// namespace is what is kept of a Namespace object.
type namespace struct {
	labels      labels.Set // not nil
	annotations map[string]string
	// partialLabels and partialAnnotations say that there are others, which are not kept.
	partialLabels, partialAnnotations bool
}

// newNamespace keeps of an object's labels those that are selected by, and others within bounds.
func newNamespace(o *metav1.PartialObjectMetadata, selected map[string]bool) *namespace {
	n := &namespace{labels: labels.Set{}, annotations: within(o.Annotations)}
	n.partialAnnotations = len(n.annotations) < len(o.Annotations)
	size := 0
	for _, name := range slices.Sorted(maps.Keys(o.Labels)) {
		always := name == corev1.LabelMetadataName || selected[name]
		if !always {
			if size += len(name) + len(o.Labels[name]); size > MaxLabels {
				n.partialLabels = true
				continue
			}
		}
		n.labels[name] = o.Labels[name]
	}
	return n
}

func within(all map[string]string) map[string]string {
	kept, size := map[string]string{}, 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if n := len(name) + len(all[name]); n <= MaxAnnotation && size+n <= MaxAnnotations {
			kept[name] = all[name]
			size += n
		}
	}
	return kept
}

// keepNamespace takes in a namespace that is new or changed.
func (c *Cache) keepNamespace(object metav1.Object) {
	o, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := newNamespace(o, c.selected)
	before := c.namespaces[o.Name]
	if c.namespaces[o.Name] = n; before == nil || !before.equal(n) {
		c.mark(o.Name)
	}
}

func (n *namespace) equal(o *namespace) bool {
	return maps.Equal(n.labels, o.labels) && n.partialLabels == o.partialLabels &&
		maps.Equal(n.annotations, o.annotations) && n.partialAnnotations == o.partialAnnotations
}

func (c *Cache) dropNamespace(object metav1.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.namespaces, object.GetName())
	c.mark(object.GetName())
}

// namespaceListing takes in a list of all namespaces.
type namespaceListing struct {
	cache *Cache
	found map[string]bool
}

func (c *Cache) listNamespaces() listing { return &namespaceListing{c, map[string]bool{}} }

// add implements listing. What a list says is true before it is complete.
func (l *namespaceListing) add(object metav1.Object) {
	l.found[object.GetName()] = true
	l.cache.keepNamespace(object)
}

// done implements listing.
func (l *namespaceListing) done() {
	c := l.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.namespaces {
		if !l.found[name] {
			delete(c.namespaces, name)
			c.mark(name)
		}
	}
}

// selectBy notes by which labels the cluster's rules select namespaces, and has namespaces read again of which one of
// these may not be kept; c.mu is held.
func (c *Cache) selectBy(rules policy.Rules) {
	selected, more := map[string]bool{}, false
	for r := range rules.All() {
		if r.Match.Namespaces == nil {
			continue
		}
		requirements, _ := r.Match.Namespaces.Requirements()
		for _, requirement := range requirements {
			selected[requirement.Key()] = true
			more = more || !c.selected[requirement.Key()]
		}
	}
	c.selected = selected
	if !more {
		return
	}
	for name, n := range c.namespaces {
		if n.partialLabels {
			c.scanning.Add(place{name, kindNamespace})
		}
	}
}

// readNamespace takes in a namespace anew, unless the watch tells of it meanwhile.
func (c *Cache) readNamespace(ctx context.Context, name string) error {
	c.mu.Lock()
	before := c.namespaces[name]
	c.mu.Unlock()
	_, err := c.sources.Namespaces.Page(ctx, name, "", func(object metav1.Object) {
		c.mu.Lock()
		defer c.mu.Unlock()
		o, ok := object.(*metav1.PartialObjectMetadata)
		if ok && o.Name == name && before != nil && c.namespaces[name] == before {
			c.namespaces[name] = newNamespace(o, c.selected)
			c.mark(name)
		}
	})
	return err
}
