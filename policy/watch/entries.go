package watch

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/eventquota/eventquota/policy"
)

// id distinguishes the rules of a namespace.
type id struct{ kind, name string }

// entry is a rule as it was last received, and what became of it.
type entry struct {
	Report

	created time.Time
	size    int
	inForce policy.Rules // what is made of Object, or of the last generation that was valid
	beyond  bool         // the bounds of its namespace do not allow it
}

// settle notes the result of compiling Object. What is in force stays if it is not valid.
func (e *entry) settle(made policy.Rules, err error) {
	e.Pending, e.Err = false, err
	if err != nil {
		return
	}
	e.inForce, e.size = made, sizeOf(e.Object)
	for r := range made.All() {
		e.Governing, e.Mode = r.Identity.Generation, r.Mode
	}
}

// Reports are those of all rules, in no order.
func (c *Cache) Reports() []Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Report
	for _, entries := range c.entries {
		for _, e := range entries {
			all = append(all, e.Report)
		}
	}
	return all
}

// entry is that of a rule, or nil; c.mu is held.
func (c *Cache) entry(i policy.Identity) *entry {
	if e := c.entries[i.Namespace][id{i.Kind, i.Name}]; e != nil && e.UID == i.UID {
		return e
	}
	return nil
}

// keep takes in a rule that is new or changed. It makes an entry of each generation once: a change of status or
// labels makes no generation.
func (c *Cache) keep(u *unstructured.Unstructured) {
	e := &entry{
		Report: Report{Pending: true, Object: u, Identity: policy.Identity{
			Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), Generation: u.GetGeneration(),
		}},
		created: u.GetCreationTimestamp().Time, size: sizeOf(u),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.entry(e.Identity) // not another rule that had the name
	switch {
	case before == nil:
	case before.Generation == e.Generation:
		before.Object = u
		return
	case before.Governing > 0:
		e.inForce, e.Governing, e.Mode, e.size = before.inForce, before.Governing, before.Mode, max(e.size, before.size)
	}
	if e.Namespace == "" {
		// One goroutine handles all rules of a kind, so none overtakes another.
		c.mu.Unlock()
		made, err := c.compiler.Compile(u)
		c.mu.Lock()
		e.settle(made, err)
		c.reports = append(c.reports, e.Report)
	}
	if c.entries[e.Namespace] == nil {
		c.entries[e.Namespace] = map[id]*entry{}
	}
	c.entries[e.Namespace][id{e.Kind, e.Name}] = e
	c.mark(e.Namespace)
}

func (c *Cache) drop(u *unstructured.Unstructured) {
	namespace := u.GetNamespace()
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.entries[namespace], id{u.GetKind(), u.GetName()}); len(c.entries[namespace]) == 0 {
		delete(c.entries, namespace)
	}
	c.mark(namespace)
}

func (c *Cache) markNamespace(o *metav1.PartialObjectMetadata) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mark(o.Name)
}

// handler calls keep for what is new or changed, and drop for what is deleted.
func handler[T metav1.Object](keep, drop func(T)) cache.ResourceEventHandlerFuncs {
	with := func(do func(T)) func(any) {
		return func(o any) {
			if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			if object, ok := o.(T); ok {
				do(object)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    with(keep),
		UpdateFunc: func(_, o any) { with(keep)(o) },
		DeleteFunc: with(drop),
	}
}
