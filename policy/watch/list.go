package watch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy/watch/feed"
)

// ruleListing collects a list of all rules of a kind.
type ruleListing struct {
	cache *Cache
	kind  string
	found map[string]*oldestRules // by namespace
}

func (c *Cache) listRules(kind string) feed.Listing {
	return &ruleListing{c, kind, map[string]*oldestRules{}}
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
		s = &oldestRules{}
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
			delete(c.scans, at) // its pages belong to another list
		}
	}
	for at := range c.rules {
		if at.kind == l.kind && l.found[at.namespace] == nil {
			delete(c.rules, at)
			c.markDirty(at.namespace)
		}
	}
	for namespace, s := range l.found {
		c.replaceList(scope{namespace, l.kind}, s)
	}
}

// replaceList replaces the rules of a scope by those of a list, and keeps their state. The caller holds c.mu.
func (c *Cache) replaceList(at scope, found *oldestRules) {
	before, next := c.rules[at], &oldestRules{truncated: found.truncated}
	for _, e := range found.entries {
		was := before.get(e.Name)
		e = e.carryOver(was)
		next.entries = append(next.entries, e)
		if e != was {
			c.handleGeneration(e)
		}
	}
	if c.rules[at] = next; next.incomplete() { // some were deleted during the scan
		c.scanQueue.AddAfter(at, scanDelay)
	} else if len(next.entries) == 0 {
		delete(c.rules, at)
	}
	c.markDirty(at.namespace)
}
