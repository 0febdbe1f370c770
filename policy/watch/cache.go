package watch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/eventquota/eventquota/policy"
)

// Cache keeps a policy.Set up to date. Its methods are safe for concurrent use.
//
// A change is in force milliseconds after it has been compiled, always as a whole, as Sets are only ever swapped. A
// rule that is no longer valid keeps its last valid generation, if this Cache has seen one.
//
// The cluster's rules are compiled as they come; those of namespaces by one goroutine, in turn and within bounds, so
// that no tenant delays the admin or another tenant for long, or uses up the memory.
type Cache struct {
	sources  Sources
	compiler *policy.Compiler
	fallback *policy.Policy
	report   func(Report)
	inForce  policy.Current
	synced   atomic.Bool
	changed  chan struct{}                    // has one element while there is something to arrange
	waiting  workqueue.TypedInterface[string] // namespaces with rules to compile

	mu      sync.Mutex               // guards what follows; resolution does not take it
	entries map[string]map[id]*entry // by namespace, "" for the cluster
	dirty   map[string]bool          // namespaces to arrange anew, "" for all
	reports []Report                 // to be reported once they are in force
	share   int                      // the size that the rules of each namespace may have
}

// Report is the state of a rule's generation.
type Report struct {
	policy.Identity

	// Governing is the generation that is in force: the last that was valid, or 0 for none. Mode is its mode.
	Governing int64
	Mode      policy.Mode
	// Err is why Generation is not in force, or nil. It names the fields that are wrong.
	Err error
	// Pending says that Generation is not compiled yet, so that nobody knows whether it is valid. New reports none of these.
	Pending bool
	// Object is the rule as last received from the API server, its status included. It must not be changed.
	Object *unstructured.Unstructured
}

// New makes a Cache that has only the policy fallback until Run finds others. report is called with each Report
// once the Set is as it says, from one goroutine. It must not block, and may be nil.
func New(s Sources, fallback *policy.Policy, report func(Report)) (*Cache, error) {
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, err
	}
	c := &Cache{
		sources: s, compiler: compiler, fallback: fallback, report: report,
		changed: make(chan struct{}, 1),
		waiting: workqueue.NewTyped[string](),
		entries: map[string]map[id]*entry{},
		dirty:   map[string]bool{"": true},
		share:   namespaceSize,
	}
	c.inForce.Store(policy.NewSet(fallback, policy.Rules{}, nil))
	return c, nil
}

// InForce holds the Set of all rules that are valid and within bounds.
func (c *Cache) InForce() *policy.Current { return &c.inForce }

// HasSynced reports whether the Set has been made from all that the API server had of the cluster's rules and of
// namespaces. Those of tenants may come later.
func (c *Cache) HasSynced() bool { return c.synced.Load() }

// Run keeps the Set up to date until ctx ends, and then returns nil. It is called once. While the API server is
// unavailable, or does not know the kinds yet, it tries again and the Set stays as it is.
func (c *Cache) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer c.waiting.ShutDown()
	defer cancel()
	running.Go(func() { c.compileWaiting(ctx) })
	synced, err := c.start(ctx, &running)
	if err != nil {
		return fmt.Errorf("watch policies: %w", err)
	}
	// Nothing is arranged until the cluster's rules are known: without them, a tenant's can be worse than none.
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

// start runs the informers. Those of the cluster's rules and of namespaces have synced when all that it returns says
// so. A kind that the API server does not serve has no objects.
func (c *Cache) start(ctx context.Context, running *sync.WaitGroup) (synced []cache.InformerSynced, err error) {
	add := func(resource string, informer cache.SharedIndexInformer, handler cache.ResourceEventHandlerFuncs) error {
		var unknown atomic.Bool
		if err := informer.SetWatchErrorHandlerWithContext(complain(resource, &unknown)); err != nil {
			return err
		}
		if err := informer.SetTransform(strip); err != nil {
			return err
		}
		registered, err := informer.AddEventHandler(handler)
		if err != nil {
			return err
		}
		if resource != eventPolicies && resource != eventQuotas {
			synced = append(synced, func() bool { return registered.HasSynced() || unknown.Load() })
		}
		running.Go(func() { informer.RunWithContext(ctx) })
		return nil
	}
	for resource, informer := range c.sources.Rules {
		if err := add(resource, informer, handler(c.keep, c.drop)); err != nil {
			return nil, err
		}
	}
	return synced, add("namespaces", c.sources.Namespaces, handler(c.markNamespace, c.markNamespace))
}

// arrange makes a Set of what has changed and puts it in force.
func (c *Cache) arrange() {
	c.mu.Lock()
	all := c.dirty[""]
	delete(c.dirty, "")
	c.bound()
	changed := make(map[string]*policy.Namespace, len(c.dirty))
	for namespace := range c.dirty {
		changed[namespace] = c.namespace(namespace)
	}
	clear(c.dirty)
	switch {
	case all:
		c.inForce.Store(c.arrangeAll())
	case len(changed) > 0:
		c.inForce.Store(c.inForce.Load().With(changed))
	}
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
	all := map[string]policy.Namespace{}
	for _, namespace := range slices.AppendSeq(c.sources.Namespaces.GetStore().ListKeys(), maps.Keys(c.entries)) {
		if n := c.namespace(namespace); n != nil {
			all[namespace] = *n
		}
	}
	return policy.NewSet(c.fallback, c.valid(""), all)
}

// namespace is what is known of a namespace, or nil.
func (c *Cache) namespace(name string) *policy.Namespace {
	object, _, _ := c.sources.Namespaces.GetStore().GetByKey(name)
	o, known := object.(*metav1.PartialObjectMetadata)
	if name == "" || !known && len(c.entries[name]) == 0 {
		return nil
	}
	n := policy.Namespace{Rules: c.valid(name)}
	if known {
		n.Labels, n.Annotations = o.Labels, o.Annotations
		if n.Labels == nil {
			n.Labels = labels.Set{} // it has none
		}
	}
	return &n
}

// valid are the rules of a namespace, or of the cluster for "", that have a valid generation.
func (c *Cache) valid(namespace string) (all policy.Rules) {
	for _, e := range c.entries[namespace] {
		all.Add(e.inForce)
	}
	return all
}

// mark asks for a new arrangement; c.mu is held.
func (c *Cache) mark(namespace string) {
	c.dirty[namespace] = true
	select {
	case c.changed <- struct{}{}:
	default: // the pending signal covers this change
	}
}

// Shadowed says what always stands before the valid rules of a namespace, or of the cluster for "", as
// policy.Set.Shadowed does.
func (c *Cache) Shadowed(namespace string) map[string][]string {
	c.mu.Lock()
	cluster, namespaces := c.valid(""), map[string]policy.Namespace{}
	if n := c.namespace(namespace); n != nil {
		namespaces[namespace] = *n
	}
	c.mu.Unlock()
	return policy.NewSet(c.fallback, cluster, namespaces).Shadowed(namespace)
}
