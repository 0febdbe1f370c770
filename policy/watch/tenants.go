package watch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/policy"
)

const (
	// patience is how long the first Event of a namespace waits for its rules.
	patience = 50 * time.Millisecond
	// mostOfAKind is how many rules of each kind a namespace may have.
	mostOfAKind = 64
	// Sizes are in bytes of expressions. CEL needs up to 120 bytes of memory for one of them, and 16 KiB for
	// each condition; a rule without conditions takes some.
	conditionSize, ruleSize = 128, 32
	// namespaceSize bounds the rules of one namespace, to four of the largest: 16 MiB of memory.
	namespaceSize = 128 << 10
	// totalSize bounds the rules of all namespaces that are compiled: 128 MiB of memory.
	totalSize = 1 << 20
)

// tenant is a namespace that has rules. It is active once an Event of it was seen, and compiled when all its rules
// have been. To discard its rules it is replaced: a Set that has it has its rules too.
type tenant struct {
	cache *Cache
	name  string
	asked atomic.Uint64 // when it was last asked about, by Cache.clock
	ready chan struct{} // closed by open once its rules are in force
	open  func()

	// What follows is guarded by Cache.mu.
	active, compiled bool
	until            time.Time // when its Events wait no longer
	size             int
}

var _ policy.Pending = (*tenant)(nil)

func (c *Cache) newTenant(namespace string) *tenant {
	ready := make(chan struct{})
	return &tenant{cache: c, name: namespace, ready: ready, open: sync.OnceFunc(func() { close(ready) })}
}

// Ask notes that there is an Event, and reports whether the rules for it are in force.
func (t *tenant) Ask() bool {
	now := t.cache.clock.Load()
	if t.asked.Load() != now { // a write would contend for the cache line
		t.asked.Store(now)
	}
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

// Await activates the namespace and waits until its rules are in force.
func (t *tenant) Await(ctx context.Context) {
	c := t.cache
	c.mu.Lock()
	t = c.tenants[t.name] // another one, if it was discarded
	if t == nil || !t.active && !c.activate(t) {
		c.mu.Unlock()
		return
	}
	until := t.until
	c.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case <-t.ready:
	case <-ctx.Done():
	}
}

// activate has the rules of a namespace compiled, unless too many wait for that; c.mu is held. Those that wait keep
// their space: otherwise, when more namespaces send than fit, none would stay until its turn. They get a quarter of it,
// so that what is compiled stays for a while.
func (c *Cache) activate(t *tenant) bool {
	if t.size > c.totalSize || c.waitingSize > 0 && c.waitingSize+t.size > c.totalSize/4 {
		return false
	}
	t.active = true
	t.until = time.Now().Add(c.patience)
	t.asked.Store(c.clock.Add(1))
	c.activeSize += t.size
	c.waitingSize += t.size
	c.discard()
	c.waiting.Add(t.name)
	return true
}

// discard makes space until all that is active fits: it discards the rules of the namespaces that were not asked
// about for the longest time. c.mu is held.
func (c *Cache) discard() {
	for c.activeSize > c.totalSize {
		var oldest *tenant
		for _, t := range c.tenants {
			if t.compiled && (oldest == nil || t.asked.Load() < oldest.asked.Load()) {
				oldest = t
			}
		}
		if oldest == nil {
			return
		}
		for _, e := range c.entries[oldest.name] {
			e.inForce, e.compiled = policy.Rules{}, false
		}
		replacement := c.newTenant(oldest.name)
		replacement.size = oldest.size
		c.resize(oldest, 0)
		c.tenants[oldest.name] = replacement
		c.mark(oldest.name)
	}
}

// resize changes the size of a tenant, and the sums that it is part of. c.mu is held.
func (c *Cache) resize(t *tenant, size int) {
	if t.active {
		c.activeSize += size - t.size
	}
	if t.active && !t.compiled {
		c.waitingSize += size - t.size
	}
	t.size = size
}

// arrangeTenant is the tenant of a namespace, brought up to date with its entries; nil for none. c.mu is held.
func (c *Cache) arrangeTenant(namespace string) *tenant {
	t := c.tenants[namespace]
	if len(c.entries[namespace]) == 0 {
		if t != nil {
			c.resize(t, 0)
			delete(c.tenants, namespace)
		}
		return nil
	}
	if t == nil {
		t = c.newTenant(namespace)
		c.tenants[namespace] = t
	}
	c.resize(t, c.bound(namespace))
	if !t.active {
		return t
	}
	c.waiting.Add(namespace)
	c.discard()
	return c.tenants[namespace]
}

// bound says which entries of a namespace are within its bounds, the oldest first, and returns their size.
func (c *Cache) bound(namespace string) (size int) {
	all := make([]*entry, 0, len(c.entries[namespace]))
	for _, e := range c.entries[namespace] {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	number := map[string]int{}
	for _, e := range all {
		var beyond error
		switch {
		case number[e.Kind] == mostOfAKind:
			beyond = fmt.Errorf("a namespace may have %d of the kind %s, and there are as many older ones", mostOfAKind, e.Kind)
		case size+e.size > namespaceSize:
			beyond = fmt.Errorf("the expressions of a namespace may have %d bytes in all, with %d more for each: "+
				"those of older policies and quotas leave too few", namespaceSize, conditionSize)
		default:
			number[e.Kind]++
			size += e.size
		}
		if (e.beyond == nil) != (beyond == nil) {
			e.beyond, e.inForce, e.compiled = beyond, policy.Rules{}, false
			c.reports = append(c.reports, e.report())
		}
	}
	return size
}

// compileWaiting compiles the rules of namespaces until ctx ends. They take turns, one rule at a time.
func (c *Cache) compileWaiting(ctx context.Context) {
	for {
		namespace, stop := c.waiting.Get()
		if stop || ctx.Err() != nil {
			return
		}
		if c.compileNext(namespace) {
			c.waiting.Add(namespace)
		}
		c.waiting.Done(namespace)
	}
}

// compileNext compiles one rule of a namespace, and reports whether there may be more.
func (c *Cache) compileNext(namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[namespace]
	if t == nil || !t.active {
		return false
	}
	if e := c.uncompiled(namespace); e != nil {
		from := *e
		c.mu.Unlock()
		made, err := c.compile(&from)
		c.mu.Lock()
		if c.entry(from.Identity) != e || c.tenants[namespace] != t || e.beyond != nil {
			return true // it has changed meanwhile
		}
		e.settle(made, err)
		e.inForce, e.compiled = made, true
		c.reports = append(c.reports, e.report())
		c.mark(namespace)
	}
	if c.uncompiled(namespace) != nil {
		return true
	}
	if !t.compiled {
		t.compiled = true
		c.waitingSize -= t.size
		c.mark(namespace)
	}
	return false
}

// uncompiled is an entry of a namespace that is to be compiled, or nil; c.mu is held.
func (c *Cache) uncompiled(namespace string) *entry {
	for _, e := range c.entries[namespace] {
		if e.beyond == nil && !e.compiled {
			return e
		}
	}
	return nil
}
