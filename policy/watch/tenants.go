package watch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/policy"
)

const (
	// mostOfAKind is how many rules of each kind a namespace may have.
	mostOfAKind = 64
	// Sizes are in bytes of expressions. CEL needs up to 120 bytes of memory for one of them, and 16 KiB for
	// each condition; a rule without conditions takes some.
	conditionSize, ruleSize = 128, 32
	// namespaceSize bounds the rules of one namespace, to four of the largest: 16 MiB of memory.
	namespaceSize = 128 << 10
	// totalSize bounds the rules of all namespaces: 128 MiB of memory.
	totalSize = 1 << 20
)

// share is how much each namespace may have of totalSize, by what they want: if not all fits, those that want most give way.
func share(wanted []int) int {
	slices.Sort(wanted)
	left := totalSize
	for i, size := range wanted {
		if most := left / (len(wanted) - i); size > most {
			return most
		}
		left -= size
	}
	return namespaceSize
}

// bound finds out which rules are within bounds: of the namespaces that are dirty or, where their share has changed, of
// all. c.mu is held.
func (c *Cache) bound() {
	var wanted []int
	for namespace, entries := range c.entries {
		size := 0
		for _, e := range entries {
			size += e.size
		}
		if namespace != "" {
			wanted = append(wanted, min(size, namespaceSize))
		}
	}
	if now := share(wanted); now != c.share {
		c.share = now
		for namespace := range c.entries {
			c.dirty[namespace] = true
		}
		delete(c.dirty, "")
	}
	for namespace := range c.dirty {
		c.boundOne(namespace)
		c.waiting.Add(namespace)
	}
}

// boundOne finds out which rules of a namespace are within bounds: the oldest. Others are not kept.
func (c *Cache) boundOne(namespace string) {
	number, size := map[string]int{}, 0
	for _, e := range slices.SortedFunc(maps.Values(c.entries[namespace]), func(a, b *entry) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	}) {
		var beyond error
		switch {
		case number[e.Kind] == mostOfAKind:
			beyond = fmt.Errorf("a namespace may have %d of the kind %s, and there are as many older ones", mostOfAKind, e.Kind)
		case size+e.size > c.share:
			beyond = fmt.Errorf("the expressions of a namespace may have %d bytes in all, with %d more for each, and less where those of "+
				"all namespaces have more than %d: those of older policies and quotas leave too few", namespaceSize, conditionSize, totalSize)
		default:
			number[e.Kind]++
			size += e.size
		}
		if e.beyond == (beyond != nil) {
			continue
		}
		e.beyond, e.Pending, e.Err = beyond != nil, beyond == nil, beyond
		e.inForce, e.Governing, e.Mode = policy.Rules{}, 0, ""
		if e.beyond {
			c.reports = append(c.reports, e.Report)
		}
	}
}

// compileWaiting compiles the rules of namespaces until ctx ends. They take turns, one rule at a time.
func (c *Cache) compileWaiting(ctx context.Context) {
	for {
		namespace, stop := c.waiting.Get()
		if stop || ctx.Err() != nil {
			return
		}
		if c.compileNext(namespace) {
			c.waiting.Add(namespace)
		}
		c.waiting.Done(namespace)
	}
}

// compileNext compiles one rule of a namespace, and reports whether there was one.
func (c *Cache) compileNext(namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries[namespace] {
		if !e.Pending {
			continue
		}
		object := e.Object
		c.mu.Unlock()
		made, err := c.compiler.Compile(object)
		c.mu.Lock()
		if c.entry(e.Identity) == e && e.Pending { // it has not changed meanwhile
			e.settle(made, err)
			c.reports = append(c.reports, e.Report)
			c.mark(namespace)
		}
		return true
	}
	return false
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
