package watch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/eventquota/eventquota/policy"
)

// Cache keeps a policy.Set up to date. Its methods are safe for concurrent use.
//
// A change is in force milliseconds after the informer has seen it, always as a whole, as Sets are only ever
// swapped. A policy that is no longer valid governs as it was before, if this Cache has seen a valid generation.
type Cache struct {
	sources  Sources
	compiler *policy.Compiler
	fallback *policy.Policy
	report   func(Report)
	set      policy.Current
	synced   atomic.Bool
	changed  chan struct{} // has one element while there is something to arrange

	mu         sync.Mutex                   // guards what follows; Set does not take it
	entries    map[string]map[string]*entry // by namespace, "" for the cluster, and name
	namespaces map[string]labels.Set
	dirty      map[string]bool // namespaces to arrange anew, "" for all
	reports    []Report        // to be reported once they are in force
}

// Report is what became of a policy's generation.
type Report struct {
	policy.Identity

	// Governing is the generation that governs: the last that was valid, or 0 for none. Mode is its mode.
	Governing int64
	Mode      policy.Mode
	// Err is why Generation does not govern, or nil. It names the fields that are wrong.
	Err error
}

// New makes a Cache that has only the policy fallback until Run finds others. report is called with each Report
// once the Set is as it says, from one goroutine. It must not block, and may be nil.
func New(s Sources, fallback policy.Policy, report func(Report)) (*Cache, error) {
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	fallback = fallback.Identified()
	c := &Cache{
		sources: s, compiler: compiler, fallback: &fallback, report: report,
		changed:    make(chan struct{}, 1),
		entries:    map[string]map[string]*entry{},
		namespaces: map[string]labels.Set{},
		dirty:      map[string]bool{"": true},
	}
	c.set.Store(policy.NewSet(c.fallback, nil, nil))
	return c, nil
}

// Set is all policies as they are now. It takes no lock and is never nil.
func (c *Cache) Set() *policy.Set { return c.set.Load() }

// Current holds Set, always as it is now. It is not to be changed.
func (c *Cache) Current() *policy.Current { return &c.set }

// HasSynced reports whether Set has been made from all that the API server had.
func (c *Cache) HasSynced() bool { return c.synced.Load() }

// Run keeps the Set up to date until ctx ends, and then returns nil. It is called once. While the API server is
// unavailable, or does not know policies yet, it tries again and the Set stays as it is.
func (c *Cache) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var synced []cache.InformerSynced
	for _, source := range []struct {
		resource string
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandlerFuncs
	}{
		{"eventpolicies", c.sources.EventPolicies, handler(c.keep, c.drop)},
		{"clustereventpolicies", c.sources.ClusterEventPolicies, handler(c.keep, c.drop)},
		{"namespaces", c.sources.Namespaces, handler(c.keepNamespace, c.dropNamespace)},
	} {
		if err := source.informer.SetWatchErrorHandlerWithContext(complain(source.resource)); err != nil {
			return fmt.Errorf("watch policies: %w", err)
		}
		registered, err := source.informer.AddEventHandler(source.handler)
		if err != nil {
			return fmt.Errorf("watch policies: %w", err)
		}
		synced = append(synced, registered.HasSynced)
		running.Go(func() { source.informer.RunWithContext(ctx) })
	}
	// Nothing is arranged until all is known: some of the policies can be worse than none, such as a tenant's
	// without the admin's.
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	c.arrange()
	c.synced.Store(true)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
			c.arrange()
		}
	}
}

// arrange makes a Set of what has changed and puts it in force.
func (c *Cache) arrange() {
	c.mu.Lock()
	if c.dirty[""] {
		c.set.Store(c.arrangeAll())
	} else if len(c.dirty) > 0 {
		changed := make(map[string]*policy.Namespace, len(c.dirty))
		for namespace := range c.dirty {
			changed[namespace] = c.namespace(namespace)
		}
		c.set.Store(c.set.Load().With(changed))
	}
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
	all := make(map[string]policy.Namespace, len(c.namespaces))
	for namespace := range c.namespaces {
		all[namespace] = *c.namespace(namespace)
	}
	for namespace := range c.entries {
		if namespace != "" {
			all[namespace] = *c.namespace(namespace)
		}
	}
	return policy.NewSet(c.fallback, c.governing(""), all)
}

// namespace is what is known of a namespace, or nil.
func (c *Cache) namespace(namespace string) *policy.Namespace {
	ls, known := c.namespaces[namespace]
	if !known && len(c.entries[namespace]) == 0 {
		return nil
	}
	return &policy.Namespace{Labels: ls, Policies: c.governing(namespace)}
}

// governing are the policies of a namespace, or of the cluster for "", that have a valid generation.
func (c *Cache) governing(namespace string) (all []*policy.Policy) {
	for _, e := range c.entries[namespace] {
		if e.governing != nil {
			all = append(all, e.governing)
		}
	}
	return all
}

// mark asks for a new arrangement; c.mu is held.
func (c *Cache) mark(namespace string) {
	c.dirty[namespace] = true
	select {
	case c.changed <- struct{}{}:
	default: // whoever takes the signal that is there sees this change too
	}
}
