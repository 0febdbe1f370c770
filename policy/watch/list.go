package watch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy/watch/feed"
)

// ruleListing takes in a list of all rules of a kind.
type ruleListing struct {
	cache *Cache
	kind  string
	found map[string]*shelf // by namespace
}

func (c *Cache) listRules(kind string) feed.Listing {
	return &ruleListing{c, kind, map[string]*shelf{}}
}

// Add implements feed.Listing.
func (l *ruleListing) Add(object metav1.Object) {
	r, ok := object.(*Rule)
	if !ok {
		return
	}
	e := newEntry(l.kind, r)
	s := l.found[e.Namespace]
	if s == nil {
		s = &shelf{}
		l.found[e.Namespace] = s
	}
	s.put(e)
}

// Done implements feed.Listing.
func (l *ruleListing) Done() {
	c := l.cache
	for _, s := range l.found {
		for _, e := range s.entries {
			c.compileCluster(e)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := range c.scans {
		if at.kind == l.kind {
			delete(c.scans, at) // its pages are of another list
		}
	}
	for at := range c.shelves {
		if at.kind == l.kind && l.found[at.namespace] == nil {
			delete(c.shelves, at)
			c.mark(at.namespace)
		}
	}
	for namespace, s := range l.found {
		c.exchange(place{namespace, l.kind}, s)
	}
}

// exchange takes in what a shelf is found to have; c.mu is held. What is known of a rule goes on.
func (c *Cache) exchange(at place, found *shelf) {
	before, next := c.shelves[at], &shelf{more: found.more}
	for _, e := range found.entries {
		was := before.get(e.Name)
		e = e.after(was)
		next.entries = append(next.entries, e)
		if e != was {
			c.arrived(e)
		}
	}
	if c.shelves[at] = next; next.short() { // some were deleted while it was looked through
		c.scanning.AddAfter(at, scanDelay)
	} else if len(next.entries) == 0 {
		delete(c.shelves, at)
	}
	c.mark(at.namespace)
}
