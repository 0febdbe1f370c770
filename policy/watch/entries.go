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

// entry is what became of a policy.
type entry struct {
	Report

	governing *policy.Policy // nil if no generation was valid
}

// Reports are those of all policies, in no order.
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

// Object is a policy as last received from the API server, its status included, and perhaps of another generation
// than its Report. It is nil if the policy does not exist any more, and must not be changed.
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

// keep takes in a policy that is new or changed. It compiles each generation once: a change of status or labels
// makes no generation.
func (c *Cache) keep(o metav1.Object) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	namespace, name := u.GetNamespace(), u.GetName()
	c.mu.Lock()
	before := c.entries[namespace][name]
	c.mu.Unlock()
	if before != nil && before.UID != u.GetUID() {
		before = nil // another policy of the same name
	}
	if before != nil && before.Generation == u.GetGeneration() {
		return
	}
	e := &entry{Report: Report{Identity: policy.Identity{
		Kind: u.GetKind(), Namespace: namespace, Name: name, UID: u.GetUID(), Generation: u.GetGeneration(),
	}}}
	// One goroutine handles all policies of a kind, so none overtakes another.
	if e.governing, e.Err = c.compile(u); e.governing == nil && before != nil {
		e.governing = before.governing
	}
	if e.governing != nil {
		e.Governing, e.Mode = e.governing.Identity.Generation, e.governing.Mode
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[namespace] == nil {
		c.entries[namespace] = map[string]*entry{}
	}
	c.entries[namespace][name] = e
	c.reports = append(c.reports, e.Report)
	c.mark(namespace)
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
	namespace := o.GetNamespace()
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.entries[namespace], o.GetName()); len(c.entries[namespace]) == 0 {
		delete(c.entries, namespace)
	}
	c.mark(namespace)
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

// handler calls keep for what is new or changed, and drop for what is deleted.
func handler(keep, drop func(metav1.Object)) cache.ResourceEventHandlerFuncs {
	with := func(do func(metav1.Object)) func(any) {
		return func(o any) {
			if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
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
