package admission

// Idle reports whether no review is in flight.
func (p *Semaphore) Idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held) == 0
}

// Full reports whether the limiter has allowed nothing.
func (a *Limiter) Full() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.remaining == nil
}

// PooledBytes returns the memory of the body that h keeps for the next call.
func (h *Handler) PooledBytes() int {
	b, kept := h.bodyPool.Get().(*body)
	if !kept {
		return 0
	}
	return b.buffer.Cap()
}
