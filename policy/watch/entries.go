package watch

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
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
	// last is the latest generation before Object that may be valid. It is nil once Object is known to be.
	last *unstructured.Unstructured
	// inForce is what is made of Object or last, nothing if neither is valid. compiled says that it is up to date.
	inForce  policy.Rules
	compiled bool
	outline  policy.Rules // of what was last found to be valid, also while it is not kept in memory
	beyond   error        // why the bounds of its namespace do not allow it, or nil
}

func (e *entry) report() Report {
	r := e.Report
	if e.beyond != nil {
		r.Governing, r.Mode, r.Err, r.Pending = 0, "", e.beyond, false
	}
	return r
}

// settle notes the result of compiling Object.
func (e *entry) settle(made policy.Rules, err error) {
	e.Governing, e.Mode, e.Err, e.Pending = 0, "", err, false
	if err == nil {
		e.last, e.size = nil, sizeOf(e.Object)
	}
	if r := ruleOf(made); r != nil {
		e.outline = made.Outline()
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
			all = append(all, e.report())
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
	before := c.entry(e.Identity) // not another rule that had the name
	if before != nil && before.Generation == e.Generation {
		before.Object = u
		c.mu.Unlock()
		return
	}
	if before != nil {
		e.follow(before)
	}
	if e.Namespace == "" {
		// One goroutine handles all rules of a kind, so none overtakes another.
		c.mu.Unlock()
		var err error
		e.inForce, err = c.compile(e)
		e.settle(e.inForce, err)
		e.last = nil
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	if c.entries[e.Namespace] == nil {
		c.entries[e.Namespace] = map[id]*entry{}
	}
	c.entries[e.Namespace][id{e.Kind, e.Name}] = e
	if t := c.tenants[e.Namespace]; t == nil || !t.active {
		c.reports = append(c.reports, e.report()) // nothing else reports it soon
	}
	c.mark(e.Namespace)
}

// follow makes e the generation after before.
func (e *entry) follow(before *entry) {
	e.last, e.inForce, e.outline, e.Governing, e.Mode = before.Object, before.inForce, before.outline, before.Governing, before.Mode
	if before.Err != nil {
		e.last = before.last
	}
	if e.last != nil {
		e.size = max(e.size, sizeOf(e.last))
	}
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

// known is a namespace as it was last received, without its rules, and whether there is one.
func (c *Cache) known(namespace string) (policy.Namespace, bool) {
	object, _, _ := c.sources.Namespaces.GetStore().GetByKey(namespace)
	o, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return policy.Namespace{}, false
	}
	n := policy.Namespace{Labels: o.Labels, Annotations: o.Annotations}
	if n.Labels == nil {
		n.Labels = labels.Set{} // it has none
	}
	return n, true
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
