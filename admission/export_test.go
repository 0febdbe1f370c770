package admission

// AllFree reports whether no review has a place.
func (p *Places) AllFree() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.deciding.taken) == 0
}

// Untouched reports whether no Event was admitted by it.
func (a *Allowance) Untouched() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.left.taken) == 0
}

// TakeAll takes all places for long reviews, for good.
func (p *Places) TakeAll() { p.long = NewAllowance(0, longTime) }
