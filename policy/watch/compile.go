package watch

import (
	"context"
	"time"
)

// compilePause is the least time between two compilations of rules of one namespace, so that a namespace whose rules change
// all the time does not keep a processor busy.
const compilePause = 5 * time.Millisecond

// compileWaiting compiles the rules of namespaces until ctx ends. They take turns, one rule at a time.
func (c *Cache) compileWaiting(ctx context.Context) {
	for {
		namespace, stop := c.waiting.Get()
		if stop || ctx.Err() != nil {
			return
		}
		if c.compileNext(namespace) {
			c.waiting.AddAfter(namespace, compilePause)
		}
		c.waiting.Done(namespace)
	}
}

// compileNext compiles one rule of a namespace, and reports whether there was one.
func (c *Cache) compileNext(namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.nextPending(namespace)
	if e == nil {
		return false
	}
	source := e.source
	c.mu.Unlock()
	made, err := c.compiler.Compile(source)
	c.mu.Lock()
	if c.shelves[e.place()].get(e.Name) == e && e.pending() { // it has not changed meanwhile
		e.settle(made, err)
		c.news[ruleName{e.place(), e.Name}] = true
		c.mark(namespace)
	}
	return true
}

// nextPending is the oldest rule of a namespace that is to be compiled; c.mu is held.
func (c *Cache) nextPending(namespace string) *entry {
	for _, kind := range ownKinds() {
		if s := c.shelves[place{namespace, kind}]; s != nil {
			for _, e := range s.entries {
				if e.pending() {
					return e
				}
			}
		}
	}
	return nil
}
