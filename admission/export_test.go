package admission

// AllFree reports whether no review has a place.
func (p *Places) AllFree() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.taken) == 0
}

// Untouched reports whether no Event was admitted by it.
func (a *Allowance) Untouched() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left == nil
}

// KeptBytes is the memory of a body that h keeps for the next call.
func (h *Handler) KeptBytes() int {
	b, kept := h.bodies.Get().(*body)
	if !kept {
		return 0
	}
	return b.text.Cap()
}
