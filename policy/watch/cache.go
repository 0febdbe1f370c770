package watch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch/feed"
)

// arrangePause is the least time between two Sets that are made for changes of namespaces and their rules. Those of the
// cluster's rules do not wait for it.
const arrangePause = 100 * time.Millisecond

// Cache keeps a policy.Set up to date. Its methods are safe for concurrent use.
//
// A change is in force milliseconds after it has been compiled, always as a whole, as Sets are only ever swapped. A
// rule that is no longer valid keeps its last valid generation, if this Cache has seen one.
//
// The cluster's rules are compiled as they come; those of namespaces by one goroutine, in turn. Of a namespace no more
// rules are kept than a constant, however many it has, so that no tenant delays the admin or another tenant, or uses up
// the memory.
type Cache struct {
	sources  Sources
	compiler *policy.Compiler
	fallback *policy.Policy
	report   func(Report)
	inForce  policy.Current
	synced   atomic.Bool
	urgent   chan struct{} // has one element while a rule of the cluster has changed
	changed  chan struct{} // has one element while something else has

	waiting   workqueue.TypedDelayingInterface[string] // namespaces with rules to compile
	scanning  workqueue.TypedDelayingInterface[place]  // places to look through for more rules
	rereading workqueue.TypedDelayingInterface[string] // namespaces to read again

	mu         sync.Mutex // guards what follows; resolution does not take it
	shelves    map[place]*shelf
	scans      map[place]*scan
	namespaces map[string]*policy.Namespace // what is kept of their labels and annotations
	selected   map[string]bool              // the labels that the cluster's rules select namespaces by
	dirty      map[string]bool              // namespaces to arrange anew, "" for all
	news       map[ruleName]bool            // those to be reported once they are in force
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
		urgent: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		news: map[ruleName]bool{}, shelves: map[place]*shelf{}, scans: map[place]*scan{}, namespaces: map[string]*policy.Namespace{},
		dirty: map[string]bool{"": true},
	}
	c.inForce.Store(policy.NewSet(fallback, policy.Rules{}, nil))
	return c, nil
}

// InForce holds the Set of all rules that are valid and within bounds.
func (c *Cache) InForce() *policy.Current { return &c.inForce }

// HasSynced reports whether the Set has been made from all that the API server had of the cluster's rules and of
// namespaces. Those of tenants may come later.
func (c *Cache) HasSynced() bool { return c.synced.Load() }

// Run keeps the Set up to date until ctx ends. It is called once. While the API server is unavailable, or does not know
// the kinds yet, it tries again and the Set stays as it is.
func (c *Cache) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	c.waiting, c.scanning, c.rereading = workqueue.NewTypedDelayingQueue[string](), workqueue.NewTypedDelayingQueue[place](), workqueue.NewTypedDelayingQueue[string]()
	defer c.waiting.ShutDown()
	defer c.scanning.ShutDown()
	defer c.rereading.ShutDown()
	running.Go(func() { inTurn(ctx, c.waiting, c.compileNext) })
	running.Go(func() { inTurn(ctx, c.scanning, c.scanPage) })
	running.Go(func() { inTurn(ctx, c.rereading, c.readAgain) })
	// Nothing is arranged until the cluster's rules are known: without them, a tenant's can be worse than none.
	if !allClosed(ctx, c.startRules(ctx, &running)) {
		return
	}
	c.arrange() // which finds out by which labels namespaces are selected: those are kept
	if !allClosed(ctx, []<-chan struct{}{c.startNamespaces(ctx, &running)}) {
		return
	}
	c.arrange()
	c.synced.Store(true)
	c.arrangeChanges(ctx)
}

// inTurn does some work for each element of a queue until ctx ends, one after the other, and again after the time that do gives,
// unless that is 0.
func inTurn[T comparable](ctx context.Context, queue workqueue.TypedDelayingInterface[T], do func(context.Context, T) time.Duration) {
	for {
		next, stop := queue.Get()
		if stop || ctx.Err() != nil {
			return
		}
		if again := do(ctx, next); again > 0 {
			queue.AddAfter(next, again)
		}
		queue.Done(next)
	}
}

// allClosed waits until everything is closed, and reports whether that was before the end of ctx.
func allClosed(ctx context.Context, closed []<-chan struct{}) bool {
	for _, c := range closed {
		select {
		case <-ctx.Done():
			return false
		case <-c:
		}
	}
	return true
}

// arrangeChanges makes a Set of what has changed, again and again, until ctx ends.
func (c *Cache) arrangeChanges(ctx context.Context) {
	changed, again := c.changed, (<-chan time.Time)(nil)
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.urgent:
		case <-changed:
			changed, again = nil, time.After(arrangePause)
		case <-again:
			changed = c.changed
			continue
		}
		c.arrange()
	}
}

// startRules runs the feeds of rules. What it returns is closed once those of the cluster are known.
func (c *Cache) startRules(ctx context.Context, running *sync.WaitGroup) (listed []<-chan struct{}) {
	own := map[string]bool{}
	for _, kind := range ownKinds() {
		own[kind] = true
	}
	for kind, source := range c.sources.Rules {
		f := feed.New(kind, source)
		f.List = func() feed.Listing { return c.listRules(kind) }
		f.Keep, f.Drop = func(o metav1.Object) { c.keep(kind, o) }, func(o metav1.Object) { c.drop(kind, o) }
		if !own[kind] {
			listed = append(listed, f.Listed())
		}
		running.Go(func() { f.Run(ctx) })
	}
	return listed
}

// startNamespaces runs the feed of namespaces. What it returns is closed once they are known.
func (c *Cache) startNamespaces(ctx context.Context, running *sync.WaitGroup) (listed <-chan struct{}) {
	f := feed.New("Namespace", c.sources.Namespaces)
	f.List, f.Keep, f.Drop = c.listNamespaces, c.keepNamespace, c.dropNamespace
	running.Go(func() { f.Run(ctx) })
	return f.Listed()
}

// arrange makes a Set of what has changed and puts it in force.
func (c *Cache) arrange() {
	c.mu.Lock()
	all := c.dirty[""]
	delete(c.dirty, "")
	changed := make(map[string]*policy.Namespace, len(c.dirty))
	for namespace := range c.dirty {
		c.bound(namespace)
		changed[namespace] = c.namespace(namespace)
	}
	clear(c.dirty)
	switch {
	case all:
		c.inForce.Store(c.arrangeAll())
	case len(changed) > 0:
		c.inForce.Store(c.inForce.Load().With(changed))
	}
	reports := c.takeNews()
	c.mu.Unlock()
	if c.report == nil {
		return
	}
	for _, r := range reports {
		c.report(r)
	}
}

// takeNews are the reports that are due; c.mu is held.
func (c *Cache) takeNews() (reports []Report) {
	for of := range c.news {
		if e := c.shelves[of.place].get(of.name); e != nil && !e.pending() { // what is pending is reported later
			reports = append(reports, e.report())
		}
	}
	clear(c.news)
	return reports
}

// bound finds out which rules of a namespace are in force; c.mu is held.
func (c *Cache) bound(namespace string) {
	for _, kind := range ownKinds() {
		if s := c.shelves[place{namespace, kind}]; s != nil {
			for _, e := range s.bound(kind) {
				if !e.pending() {
					c.news[ruleName{e.place(), e.Name}] = true
				}
			}
		}
	}
}

func (c *Cache) arrangeAll() *policy.Set {
	cluster := c.valid("")
	c.selectBy(cluster)
	names := map[string]bool{}
	for name := range c.namespaces {
		names[name] = true
	}
	for at := range c.shelves {
		names[at.namespace] = true
	}
	all := make(map[string]policy.Namespace, len(names))
	for name := range names {
		if n := c.namespace(name); n != nil {
			all[name] = *n
		}
	}
	set := policy.NewSet(c.fallback, cluster, all)
	c.leaveOut(set.LeftOut())
	return set
}

// leaveOut notes which rules of the cluster a Set has left out; c.mu is held.
func (c *Cache) leaveOut(why map[string]error) {
	for kind := range c.sources.Rules {
		s := c.shelves[place{"", kind}]
		if s == nil {
			continue
		}
		for _, e := range s.entries {
			left := why[e.String()]
			if (e.beyond == nil) != (left == nil) {
				c.news[ruleName{e.place(), e.Name}] = true
			}
			e.beyond = left
		}
	}
}

// namespace is what is known of a namespace, or nil; c.mu is held.
func (c *Cache) namespace(name string) *policy.Namespace {
	if name == "" {
		return nil
	}
	var n policy.Namespace
	known := c.namespaces[name]
	if known != nil {
		n = *known
	}
	n.Rules = c.valid(name)
	if known == nil && len(n.Policies)+len(n.Quotas) == 0 {
		return nil
	}
	return &n
}

// valid are the rules of a namespace, or of the cluster for "", that have a valid generation; c.mu is held. A namespace's are
// within bounds, while a Set bounds those of the cluster.
func (c *Cache) valid(namespace string) (all policy.Rules) {
	for kind := range c.sources.Rules {
		s := c.shelves[place{namespace, kind}]
		if s == nil {
			continue
		}
		for _, e := range s.entries {
			if e.beyond == nil || namespace == "" {
				all.Add(e.made)
			}
		}
	}
	return all
}

// mark asks for a new arrangement; c.mu is held.
func (c *Cache) mark(namespace string) {
	c.dirty[namespace] = true
	signal := c.changed
	if namespace == "" {
		signal = c.urgent
	}
	select {
	case signal <- struct{}{}:
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
