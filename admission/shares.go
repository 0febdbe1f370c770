package admission

import (
	"sync"
	"time"
)

// shares are divided among namespaces. Each may take one more while it has no more than are free, so that one alone
// leaves a half to others.
type shares struct {
	free  int
	taken map[string]int
}

func newShares(n int) shares { return shares{free: n, taken: map[string]int{}} }

// take takes n, one after the other, or none.
func (s *shares) take(namespace string, n int) bool {
	if s.free < n || s.taken[namespace]+2*(n-1) > s.free {
		return false
	}
	s.free -= n
	s.taken[namespace] += n
	return true
}

func (s *shares) give(namespace string) {
	s.free++
	if s.taken[namespace]--; s.taken[namespace] == 0 {
		delete(s.taken, namespace)
	}
}

// Allowance bounds how often something is done for all namespaces together. It is safe for concurrent use.
type Allowance struct {
	most int
	each time.Duration

	mu    sync.Mutex
	began time.Time
	left  shares
}

// NewAllowance admits so many, 0 or more, in each time of a length.
func NewAllowance(most int, each time.Duration) *Allowance { return &Allowance{most: most, each: each} }

func (a *Allowance) admits(now time.Time, namespace string, n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if since := now.Sub(a.began); since >= a.each || since < 0 {
		a.began, a.left = now, newShares(a.most)
	}
	return a.left.take(namespace, n)
}
