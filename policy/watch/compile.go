package watch

import (
	"context"
	"time"
)

// compilePause is the minimum time between two compilations of one namespace's rules, so that a namespace whose rules change
// all the time does not keep a processor busy.
const compilePause = 5 * time.Millisecond

// compileNext compiles one rule of a namespace, and returns the time until the next compilation; 0 if there was no rule to compile.
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
	if c.rules[e.scope()].get(e.Name) == e && e.pending() { // it has not changed in the meantime
		e.setCompiled(made, err)
		c.toReport[ruleName{e.scope(), e.Name}] = true
		c.markDirty(namespace)
	}
	return compilePause
}

// nextPending returns the oldest rule of a namespace that is not compiled, or nil. The caller holds c.mu.
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
