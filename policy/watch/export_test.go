package watch

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// MostOfAKind is how many rules of each kind a namespace may have.
const MostOfAKind = mostOfAKind

// WhileLocked calls do while no change can be made.
func (c *Cache) WhileLocked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// SizeOf is what a rule counts for in these bounds.
func SizeOf(u *unstructured.Unstructured) int { return sizeOf(u) }
