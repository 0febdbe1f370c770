package watch

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// name is where a policy is; only those of the cluster have no namespace.
type name struct{ namespace, name string }

// entry is what became of a policy.
type entry struct {
	identity  policy.Identity // of the newest generation
	err       error
	governing *policy.Policy // nil when no generation was valid
}

func (e *entry) report() Report {
	r := Report{Identity: e.identity, Err: e.err}
	if e.governing != nil {
		r.Governing, r.Mode = e.governing.Identity.Generation, e.governing.Mode
	}
	return r
}

// Reports are those of all policies, in no order: for anyone who needs to know how
// things are, and not only what changes.
func (c *Cache) Reports() []Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Report, 0, len(c.entries))
	for _, e := range c.entries {
		all = append(all, e.report())
	}
	return all
}

// Object is a policy as the API server last told of it, its status and all. It
// is nil when the policy is gone, and not to be changed. It may be of another
// generation than the Report is.
func (c *Cache) Object(i policy.Identity) *unstructured.Unstructured {
	informer, key := c.sources.EventPolicies, cache.NewObjectName(i.Namespace, i.Name).String()
	if i.Namespace == "" {
		informer = c.sources.ClusterEventPolicies
	}
	o, _, err := informer.GetStore().GetByKey(key)
	u, ok := o.(*unstructured.Unstructured)
	if err != nil || !ok || u.GetUID() != i.UID {
		return nil
	}
	return u
}

// keep takes in a policy that is new or changed. Its expressions are compiled
// once for each generation: a change of its status or labels is not one.
func (c *Cache) keep(o metav1.Object) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	n := name{u.GetNamespace(), u.GetName()}
	c.mu.Lock()
	before := c.entries[n]
	c.mu.Unlock()
	if before != nil && before.identity.UID != u.GetUID() {
		before = nil // another one, of the same name
	}
	if before != nil && before.identity.Generation == u.GetGeneration() {
		return
	}
	e := &entry{identity: policy.Identity{
		Kind: u.GetKind(), Namespace: n.namespace, Name: n.name, UID: u.GetUID(), Generation: u.GetGeneration(),
	}}
	// One goroutine reports all policies of a kind: none overtakes another.
	e.governing, e.err = c.compile(u)
	if e.governing == nil && before != nil {
		e.governing = before.governing
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[n] = e
	if n.namespace != "" {
		if c.own[n.namespace] == nil {
			c.own[n.namespace] = map[name]*entry{}
		}
		c.own[n.namespace][n] = e
	}
	c.reports = append(c.reports, e.report())
	c.mark(n.namespace)
}

func (c *Cache) compile(u *unstructured.Unstructured) (*policy.Policy, error) {
	var p *policy.Policy
	var errs field.ErrorList
	var err error
	if u.GetKind() == v1alpha1.KindClusterEventPolicy {
		var in v1alpha1.ClusterEventPolicy
		if err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &in); err == nil {
			p, errs = c.compiler.ClusterEventPolicy(&in)
		}
	} else {
		var in v1alpha1.EventPolicy
		if err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &in); err == nil {
			p, errs = c.compiler.EventPolicy(&in)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return p, nil
}

func (c *Cache) drop(o metav1.Object) {
	n := name{o.GetNamespace(), o.GetName()}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, n)
	delete(c.own[n.namespace], n)
	if len(c.own[n.namespace]) == 0 {
		delete(c.own, n.namespace)
	}
	c.mark(n.namespace)
}

func (c *Cache) keepNamespace(o metav1.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.namespaces[o.GetName()]
	if known && maps.Equal(before, labels.Set(o.GetLabels())) {
		return
	}
	ls := labels.Set(o.GetLabels())
	if ls == nil {
		ls = labels.Set{} // known to have none
	}
	c.namespaces[o.GetName()] = ls
	c.mark(o.GetName())
}

func (c *Cache) dropNamespace(o metav1.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.namespaces, o.GetName())
	c.mark(o.GetName())
}

// handler calls keep for what is new or changed, and drop for what is gone.
func handler(keep, drop func(metav1.Object)) cache.ResourceEventHandlerFuncs {
	with := func(do func(metav1.Object)) func(any) {
		return func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if m, err := meta.Accessor(o); err == nil {
				do(m)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    with(keep),
		UpdateFunc: func(_, o any) { with(keep)(o) },
		DeleteFunc: with(drop),
	}
}
