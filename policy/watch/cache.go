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

// rebuildPause is the minimum time between two Sets for changes of namespaces and their rules. Changes of the
// cluster's rules do not wait.
const rebuildPause = 100 * time.Millisecond

// Cache keeps a policy.Set up to date. Its methods are safe for concurrent use.
//
// A change is in force milliseconds after it has been compiled, and always as a whole, because a Set is only replaced. If a
// rule becomes invalid, its last valid generation stays in force, if this Cache has seen one.
//
// The cluster's rules are compiled as they arrive. One goroutine compiles those of namespaces, in turn. The number of rules
// that are kept for a namespace is bounded, so no tenant delays the admin or another tenant, or uses up the memory.
type Cache struct {
	sources           Sources
	compiler          *policy.Compiler
	fallback          *policy.Policy
	report            func(Report)
	current           policy.Current
	synced            atomic.Bool
	clusterChanged    chan struct{} // has one element while a rule of the cluster has changed
	namespacesChanged chan struct{} // has one element while anything else has changed

	compileQueue workqueue.TypedDelayingInterface[string] // namespaces with rules to compile
	scanQueue    workqueue.TypedDelayingInterface[scope]  // scopes to search for more rules
	rereadQueue  workqueue.TypedDelayingInterface[string] // namespaces to read again

	mu             sync.Mutex // guards the fields below; Resolve does not lock it
	rules          map[scope]*oldestRules
	scans          map[scope]*scan
	namespaces     map[string]*policy.Namespace // with the labels and annotations that are kept
	selectedLabels map[string]bool              // the labels that the cluster's rules select namespaces by
	dirty          map[string]bool              // namespaces that changed, "" for all
	toReport       map[ruleName]bool            // rules to report once they are in force
}

// New returns a Cache that has only the policy fallback until Run finds others. One goroutine calls report with each Report
// after the Set has changed accordingly. report must not block, and may be nil.
func New(s Sources, fallback *policy.Policy, report func(Report)) (*Cache, error) {
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, err
	}
	c := &Cache{
		sources: s, compiler: compiler, fallback: fallback, report: report,
		clusterChanged: make(chan struct{}, 1), namespacesChanged: make(chan struct{}, 1),
		toReport: map[ruleName]bool{}, rules: map[scope]*oldestRules{}, scans: map[scope]*scan{}, namespaces: map[string]*policy.Namespace{},
		dirty: map[string]bool{"": true},
	}
	c.current.Store(policy.NewSet(fallback, policy.Rules{}, nil))
	return c, nil
}

// Current returns the Set of all rules that are valid and within bounds.
func (c *Cache) Current() *policy.Current { return &c.current }

// HasSynced reports whether the Set has all of the cluster's rules and all namespaces. Rules of
// namespaces may follow later.
func (c *Cache) HasSynced() bool { return c.synced.Load() }

// Run keeps the Set up to date until ctx ends. Call it once. While the API server is unavailable, or does not serve
// the kinds yet, Run retries and the Set stays as it is.
func (c *Cache) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	c.compileQueue, c.scanQueue, c.rereadQueue = workqueue.NewTypedDelayingQueue[string](), workqueue.NewTypedDelayingQueue[scope](), workqueue.NewTypedDelayingQueue[string]()
	defer c.compileQueue.ShutDown()
	defer c.scanQueue.ShutDown()
	defer c.rereadQueue.ShutDown()
	running.Go(func() { processQueue(ctx, c.compileQueue, c.compileNext) })
	running.Go(func() { processQueue(ctx, c.scanQueue, c.scanPage) })
	running.Go(func() { processQueue(ctx, c.rereadQueue, c.rereadNamespace) })
	// The first Set needs the cluster's rules: a tenant's rules alone can be worse than none.
	if !waitAllClosed(ctx, c.startRules(ctx, &running)) {
		return
	}
	c.rebuild() // finds the labels by which rules select namespaces, which are then kept
	if !waitAllClosed(ctx, []<-chan struct{}{c.startNamespaces(ctx, &running)}) {
		return
	}
	c.rebuild()
	c.synced.Store(true)
	c.rebuildOnChange(ctx)
}

// processQueue calls do for each element of a queue, one after the other, until ctx ends. It calls do again after the returned
// time, unless that is 0.
func processQueue[T comparable](ctx context.Context, queue workqueue.TypedDelayingInterface[T], do func(context.Context, T) time.Duration) {
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

// waitAllClosed waits until all channels are closed. It returns false if ctx ends before.
func waitAllClosed(ctx context.Context, closed []<-chan struct{}) bool {
	for _, c := range closed {
		select {
		case <-ctx.Done():
			return false
		case <-c:
		}
	}
	return true
}

// rebuildOnChange makes a new Set after changes, until ctx ends.
func (c *Cache) rebuildOnChange(ctx context.Context) {
	changed, again := c.namespacesChanged, (<-chan time.Time)(nil)
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.clusterChanged:
		case <-changed:
			changed, again = nil, time.After(rebuildPause)
		case <-again:
			changed = c.namespacesChanged
			continue
		}
		c.rebuild()
	}
}

// startRules runs the feeds of rules. The returned channels are closed once the cluster's rules are known.
func (c *Cache) startRules(ctx context.Context, running *sync.WaitGroup) (listed []<-chan struct{}) {
	own := map[string]bool{}
	for _, kind := range namespacedKinds() {
		own[kind] = true
	}
	for kind, source := range c.sources.Rules {
		f := feed.New(kind, source)
		f.OnList = func() feed.Listing { return c.listRules(kind) }
		f.OnUpdate, f.OnDelete = func(o metav1.Object) { c.putRule(kind, o) }, func(o metav1.Object) { c.deleteRule(kind, o) }
		if !own[kind] {
			listed = append(listed, f.Listed())
		}
		running.Go(func() { f.Run(ctx) })
	}
	return listed
}

// startNamespaces runs the feed of namespaces. The returned channel is closed once they are known.
func (c *Cache) startNamespaces(ctx context.Context, running *sync.WaitGroup) (listed <-chan struct{}) {
	f := feed.New("Namespace", c.sources.Namespaces)
	f.OnList, f.OnUpdate, f.OnDelete = c.listNamespaces, c.updateNamespace, c.deleteNamespace
	running.Go(func() { f.Run(ctx) })
	return f.Listed()
}

// rebuild makes a new Set with the changes and puts it in force.
func (c *Cache) rebuild() {
	c.mu.Lock()
	all := c.dirty[""]
	delete(c.dirty, "")
	changed := make(map[string]*policy.Namespace, len(c.dirty))
	for namespace := range c.dirty {
		c.applyBounds(namespace)
		changed[namespace] = c.namespace(namespace)
	}
	clear(c.dirty)
	switch {
	case all:
		c.current.Store(c.rebuildAll())
	case len(changed) > 0:
		c.current.Store(c.current.Load().WithNamespaces(changed))
	}
	reports := c.takeReports()
	c.mu.Unlock()
	if c.report == nil {
		return
	}
	for _, r := range reports {
		c.report(r)
	}
}

// takeReports removes and returns the reports that are due. The caller holds c.mu.
func (c *Cache) takeReports() (reports []Report) {
	for of := range c.toReport {
		if e := c.rules[of.scope].get(of.name); e != nil && !e.pending() { // pending rules are reported later
			reports = append(reports, e.report())
		}
	}
	clear(c.toReport)
	return reports
}

// applyBounds determines which rules of a namespace are in force. The caller holds c.mu.
func (c *Cache) applyBounds(namespace string) {
	for _, kind := range namespacedKinds() {
		if s := c.rules[scope{namespace, kind}]; s != nil {
			for _, e := range s.applyBounds(kind) {
				if !e.pending() {
					c.toReport[ruleName{e.scope(), e.Name}] = true
				}
			}
		}
	}
}

func (c *Cache) rebuildAll() *policy.Set {
	cluster := c.validRules("")
	c.setSelectedLabels(cluster)
	names := map[string]bool{}
	for name := range c.namespaces {
		names[name] = true
	}
	for at := range c.rules {
		names[at.namespace] = true
	}
	all := make(map[string]policy.Namespace, len(names))
	for name := range names {
		if n := c.namespace(name); n != nil {
			all[name] = *n
		}
	}
	set := policy.NewSet(c.fallback, cluster, all)
	c.setExcluded(set.Excluded())
	return set
}

// setExcluded records which rules of the cluster a Set excludes. The caller holds c.mu.
func (c *Cache) setExcluded(why map[string]error) {
	for kind := range c.sources.Rules {
		s := c.rules[scope{"", kind}]
		if s == nil {
			continue
		}
		for _, e := range s.entries {
			left := why[e.String()]
			if (e.excluded == nil) != (left == nil) {
				c.toReport[ruleName{e.scope(), e.Name}] = true
			}
			e.excluded = left
		}
	}
}

// namespace returns a namespace for a Set, or nil. The caller holds c.mu.
func (c *Cache) namespace(name string) *policy.Namespace {
	if name == "" {
		return nil
	}
	var n policy.Namespace
	known := c.namespaces[name]
	if known != nil {
		n = *known
	}
	n.Rules = c.validRules(name)
	if known == nil && len(n.Policies)+len(n.Quotas) == 0 {
		return nil
	}
	return &n
}

// validRules returns the rules of a namespace, or of the cluster for "", that have a valid generation. Those of a namespace are
// within bounds; a Set bounds those of the cluster. The caller holds c.mu.
func (c *Cache) validRules(namespace string) (all policy.Rules) {
	for kind := range c.sources.Rules {
		s := c.rules[scope{namespace, kind}]
		if s == nil {
			continue
		}
		for _, e := range s.entries {
			if e.excluded == nil || namespace == "" {
				all.Add(e.compiled)
			}
		}
	}
	return all
}

// markDirty requests a new Set. The caller holds c.mu.
func (c *Cache) markDirty(namespace string) {
	c.dirty[namespace] = true
	signal := c.namespacesChanged
	if namespace == "" {
		signal = c.clusterChanged
	}
	select {
	case signal <- struct{}{}:
	default: // the pending signal covers this change
	}
}

// Shadowed returns which rules shadow the valid rules of a namespace, or of the cluster for "", as
// policy.Set.Shadowed does.
func (c *Cache) Shadowed(namespace string) map[string][]string {
	c.mu.Lock()
	cluster, namespaces := c.validRules(""), map[string]policy.Namespace{}
	if n := c.namespace(namespace); n != nil {
		namespaces[namespace] = *n
	}
	c.mu.Unlock()
	return policy.NewSet(c.fallback, cluster, namespaces).Shadowed(namespace)
}
