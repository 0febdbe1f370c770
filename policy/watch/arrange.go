package watch

import "github.com/eventquota/eventquota/policy"

// arrange makes a Set of what has changed and puts it in force.
func (c *Cache) arrange() {
	c.mu.Lock()
	if c.allDirty {
		c.set.Store(c.arrangeAll())
	} else if len(c.dirty) > 0 {
		changed := make(map[string]*policy.Namespace, len(c.dirty))
		for namespace := range c.dirty {
			changed[namespace] = c.namespace(namespace)
		}
		c.set.Store(c.set.Load().With(changed))
	}
	c.allDirty = false
	clear(c.dirty)
	reports := c.reports
	c.reports = nil
	c.mu.Unlock()
	if c.report == nil {
		return
	}
	for _, r := range reports {
		c.report(r)
	}
}

func (c *Cache) arrangeAll() *policy.Set {
	var cluster []*policy.Policy
	for n, e := range c.entries {
		if n.namespace == "" && e.governing != nil {
			cluster = append(cluster, e.governing)
		}
	}
	all := make(map[string]policy.Namespace, len(c.namespaces))
	for namespace := range c.namespaces {
		all[namespace] = *c.namespace(namespace)
	}
	for namespace := range c.own {
		all[namespace] = *c.namespace(namespace)
	}
	return policy.NewSet(c.fallback, cluster, all)
}

// namespace is what is known of a namespace, or nil.
func (c *Cache) namespace(namespace string) *policy.Namespace {
	ls, known := c.namespaces[namespace]
	if !known && len(c.own[namespace]) == 0 {
		return nil
	}
	n := &policy.Namespace{Labels: ls}
	for _, e := range c.own[namespace] {
		if e.governing != nil {
			n.Policies = append(n.Policies, e.governing)
		}
	}
	return n
}

// mark asks for a new arrangement; c.mu is held.
func (c *Cache) mark(namespace string) {
	if namespace == "" {
		c.allDirty = true
	} else {
		c.dirty[namespace] = true
	}
	c.signal()
}

func (c *Cache) signal() {
	select {
	case c.changed <- struct{}{}:
	default: // there is a signal already, and who takes it sees this change too
	}
}
