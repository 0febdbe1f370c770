package watch

// WhileLocked calls do while no change can be made.
func (c *Cache) WhileLocked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}
