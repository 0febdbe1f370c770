package watch

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The bounds of a namespace.
const (
	MostOfAKind   = mostOfAKind
	NamespaceSize = namespaceSize
	TotalSize     = totalSize
)

// SetPatience says how long the first Event of a namespace waits.
func (c *Cache) SetPatience(d time.Duration) { c.patience = d }

// SetTotalSize bounds the namespaces that are compiled.
func (c *Cache) SetTotalSize(bytes int) { c.totalSize = bytes }

// WhileLocked calls do while no change can be made.
func (c *Cache) WhileLocked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// SizeOf is what a rule counts for in these bounds.
func SizeOf(u *unstructured.Unstructured) int { return sizeOf(u) }

// StopCompiling leaves the rules of namespaces as they are.
func (c *Cache) StopCompiling() { c.waiting.ShutDown() }
