package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/eventquota/eventquota/policy"
)

// Cache keeps a policy.Set up to date. Its methods are safe for concurrent use.
//
// A change is in force once the informer has told of it and a new Set is made,
// milliseconds later: always as a whole, as Sets are only ever swapped. A
// policy that is changed into one that is not valid goes on governing as it was
// before; a Cache that did not see it before, say because the replica has
// started since, has nothing to go on with.
type Cache struct {
	sources  Sources
	compiler *policy.Compiler
	fallback *policy.Policy
	report   func(Report)
	set      policy.Current
	synced   atomic.Bool
	changed  chan struct{} // has one element while there is something to arrange

	mu         sync.Mutex // guards what follows; who asks for the Set does not take it
	entries    map[name]*entry
	namespaces map[string]labels.Set
	own        map[string]map[name]*entry // by namespace
	dirty      map[string]bool            // namespaces that are to be arranged anew
	allDirty   bool                       // all of them are
	reports    []Report                   // to be told once they are true
}

// Report is what became of a policy's generation.
type Report struct {
	policy.Identity

	// Governing is the generation that governs: Generation if that is valid,
	// otherwise the last that was, or 0 for none.
	Governing int64
	// Mode is that of the generation that governs, empty for none.
	Mode policy.Mode
	// Err is why Generation does not govern, or nil. It names the fields that
	// are wrong.
	Err error
}

// New makes a Cache that has no policy but fallback until Run has learned of
// others. Report is called with each Report, once the Set is as it says, from
// one goroutine; it must not block. It may be nil.
func New(s Sources, fallback policy.Policy, report func(Report)) (*Cache, error) {
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	fallback = fallback.Identified()
	c := &Cache{
		sources: s, compiler: compiler, fallback: &fallback, report: report,
		changed:    make(chan struct{}, 1),
		entries:    map[name]*entry{},
		namespaces: map[string]labels.Set{},
		own:        map[string]map[name]*entry{},
		dirty:      map[string]bool{},
		allDirty:   true,
	}
	c.set.Store(policy.NewSet(c.fallback, nil, nil))
	return c, nil
}

// Set is all policies as they are now. It takes no lock and is never nil.
func (c *Cache) Set() *policy.Set { return c.set.Load() }

// Current holds Set, always as it is now. It is not to be changed.
func (c *Cache) Current() *policy.Current { return &c.set }

// HasSynced tells whether Set has been made from all that the API server had.
func (c *Cache) HasSynced() bool { return c.synced.Load() }

// Run keeps the Set up to date until ctx ends, and then returns nil. It is
// called once. While the API server is unavailable, or does not know policies yet, it
// goes on trying and the Set stays as it is.
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
	// Until all is known nothing is arranged: half of the policies can be less
	// than none, as a tenant's without the admin's.
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return ignoreEnd(ctx.Err())
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

func ignoreEnd(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
