package watch

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// rule is a policy, a quota or nothing.
type rule struct {
	policy *policy.Policy
	quota  *policy.Quota
}

func (r rule) addTo(all *policy.Rules) {
	if r.policy != nil {
		all.Policies = append(all.Policies, r.policy)
	}
	if r.quota != nil {
		all.Quotas = append(all.Quotas, r.quota)
	}
}

func (r rule) rule() *policy.Rule {
	switch {
	case r.policy != nil:
		return &r.policy.Rule
	case r.quota != nil:
		return &r.quota.Rule
	}
	return nil
}

// Check says why a rule is not valid, if it is Pending: the rules of a namespace that sends no Events are not
// compiled otherwise. It keeps what it found for Reports, and not the rule. An error may also mean that there is no
// such rule.
func (c *Cache) Check(i policy.Identity) error {
	c.mu.Lock()
	e := c.entry(i)
	if e == nil {
		c.mu.Unlock()
		return fmt.Errorf("%s: %w", i, errNotFound)
	}
	from := *e
	c.mu.Unlock()
	if r := from.report(); !r.Pending {
		return r.Err
	}
	made, err := c.compile(&from)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entry(i) == e && e.Pending {
		e.settle(made, err)
	}
	return err
}

var errNotFound = errors.New("does not exist")

// compile returns what is in force for e, and why that is not its object. It does not change e.
func (c *Cache) compile(e *entry) (rule, error) {
	made, err := compileObject(c.compiler, e.object)
	switch {
	case err == nil:
		return made, nil
	case e.inForce.rule() != nil || e.last == nil:
		return e.inForce, err
	}
	made, _ = compileObject(c.compiler, e.last)
	return made, err
}

func compileObject(c *policy.Compiler, u *unstructured.Unstructured) (r rule, err error) {
	switch kind := u.GetKind(); kind {
	case v1alpha1.KindEventPolicy:
		r.policy, err = decode(u, c.EventPolicy)
	case v1alpha1.KindClusterEventPolicy:
		r.policy, err = decode(u, c.ClusterEventPolicy)
	case v1alpha1.KindEventQuota:
		r.quota, err = decode(u, c.EventQuota)
	case v1alpha1.KindClusterEventQuota:
		r.quota, err = decode(u, c.ClusterEventQuota)
	default:
		err = fmt.Errorf("kind %q is not known", kind)
	}
	return r, err
}

func decode[In, Out any](u *unstructured.Unstructured, compile func(*In) (*Out, field.ErrorList)) (*Out, error) {
	var in In
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &in); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	out, errs := compile(&in)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return out, nil
}

// Shadowed says what always stands before the valid rules of a namespace, or of the cluster for "", as
// policy.Set.Shadowed does, by UID. The namespace need not be compiled.
func (c *Cache) Shadowed(namespace string) map[types.UID][]string {
	c.mu.Lock()
	cluster, own := c.valid(""), c.namespaces[namespace]
	var valid []*unstructured.Unstructured
	for _, e := range c.entries[namespace] {
		switch r := e.report(); r.Governing {
		case 0:
		case r.Generation:
			valid = append(valid, e.object)
		default:
			valid = append(valid, e.last)
		}
	}
	c.mu.Unlock()
	asked := cluster
	if namespace != "" {
		for _, u := range valid {
			if r, err := compileObject(policy.Outliner(), u); err == nil {
				r.addTo(&own.Rules)
			}
		}
		asked = own.Rules
	}
	set := policy.NewSet(c.fallback, cluster, map[string]policy.Namespace{namespace: own})
	shadowed := map[types.UID][]string{}
	note := func(r *policy.Rule) {
		if before := set.Shadowed(r.Identity); before != nil {
			shadowed[r.Identity.UID] = before
		}
	}
	for _, p := range asked.Policies {
		note(&p.Rule)
	}
	for _, q := range asked.Quotas {
		note(&q.Rule)
	}
	return shadowed
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
	if m, ok := o.(metav1.Object); ok {
		if namespace, ok := o.(*metav1.PartialObjectMetadata); ok {
			m.SetAnnotations(bounded(namespace.Annotations))
		} else {
			m.SetAnnotations(nil)
		}
		m.SetManagedFields(nil)
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
