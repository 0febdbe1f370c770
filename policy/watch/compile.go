package watch

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/policy"
)

// Check finds out for Reports whether a rule that is Pending is valid: the rules of a namespace that sends no Events
// are not compiled otherwise. It does not keep the rule.
func (c *Cache) Check(i policy.Identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(i)
	if e == nil || !e.report().Pending {
		return
	}
	from := *e
	c.mu.Unlock()
	made, err := c.compile(&from)
	c.mu.Lock()
	if c.entry(i) == e && e.Pending {
		e.settle(made, err)
	}
}

// compile returns what is in force for e, and why that is not its object. It does not change e.
func (c *Cache) compile(e *entry) (policy.Rules, error) {
	made, err := c.compiler.Compile(e.Object)
	switch {
	case err == nil:
		return made, nil
	case ruleOf(e.inForce) != nil || e.last == nil:
		return e.inForce, err
	}
	made, _ = c.compiler.Compile(e.last)
	return made, err
}

// ruleOf is what a rule that was compiled has in common with others, or nil if there is none.
func ruleOf(made policy.Rules) *policy.Rule {
	for r := range made.All() {
		return r
	}
	return nil
}

// Shadowed says what always stands before the valid rules of a namespace, or of the cluster for "", as
// policy.Set.Shadowed does. The namespace need not be compiled.
func (c *Cache) Shadowed(namespace string) map[string][]string {
	c.mu.Lock()
	cluster := c.valid("")
	n, _ := c.known(namespace)
	for _, e := range c.entries[namespace] {
		if namespace != "" && e.report().Governing > 0 {
			n.Add(e.outline)
		}
	}
	c.mu.Unlock()
	return policy.NewSet(c.fallback, cluster, map[string]policy.Namespace{namespace: n}).Shadowed(namespace)
}

// sizeOf is how much memory a rule needs once it is compiled, in bytes of expressions.
func sizeOf(u *unstructured.Unstructured) int {
	size := ruleSize
	conditions, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "match", "conditions")
	list, _ := conditions.([]any)
	for _, one := range list {
		condition, _ := one.(map[string]any)
		expression, _ := condition["expression"].(string)
		size += conditionSize + len(expression)
	}
	return size
}

// strip removes what is never read of an object, to save memory: kubectl keeps a copy of all of it in an
// annotation. Conditions read the annotations of a namespace.
func strip(o any) (any, error) {
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata:
		o.Annotations, o.ManagedFields = bounded(o.Annotations), nil
	case *unstructured.Unstructured:
		o.SetAnnotations(nil)
		o.SetManagedFields(nil)
	}
	return o, nil
}

const (
	// annotationBytes is the longest annotation of a namespace that is kept, its name included, and
	// annotationsBytes how much of all of them, which go by their names.
	annotationBytes  = 512
	annotationsBytes = 4 << 10
)

func bounded(all map[string]string) map[string]string {
	kept, size := map[string]string{}, 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if n := len(name) + len(all[name]); n <= annotationBytes && size+n <= annotationsBytes {
			kept[name] = all[name]
			size += n
		}
	}
	return kept
}
