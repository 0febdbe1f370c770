package watch

import (
	"context"
	"time"
)

// compilePause is the least time between two compilations of rules of one namespace, so that a namespace whose rules change
// all the time does not keep a processor busy.
const compilePause = 5 * time.Millisecond

// compileNext compiles one rule of a namespace, and says after which time it is to compile the next one; 0 if there was none.
func (c *Cache) compileNext(_ context.Context, namespace string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.nextPending(namespace)
	if e == nil {
		return 0
	}
	source := e.uncompiled
	c.mu.Unlock()
	made, err := c.compiler.Compile(source)
	c.mu.Lock()
	if c.rules[e.scope()].get(e.Name) == e && e.pending() { // it has not changed meanwhile
		e.setCompiled(made, err)
		c.toReport[ruleName{e.scope(), e.Name}] = true
		c.markDirty(namespace)
	}
	return compilePause
}

// nextPending is the oldest rule of a namespace that is to be compiled; c.mu is held.
func (c *Cache) nextPending(namespace string) *entry {
	for _, kind := range namespacedKinds() {
		if s := c.rules[scope{namespace, kind}]; s != nil {
			for _, e := range s.entries {
				if e.pending() {
					return e
				}
			}
		}
	}
	return nil
}
