package admission

// AllFree reports whether no review has a place.
func (p *Places) AllFree() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.deciding) == 0 && p.read == 0
}
