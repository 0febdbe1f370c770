package busiest

import "github.com/eventquota/eventquota/store"

// Counts are Event writes by what became of them, from 0.
type Counts struct {
	Admitted int64 `json:"admitted"`
	Merged   int64 `json:"merged"`
	Dropped  int64 `json:"dropped"`
}

// CountsOf is one write of which that became.
func CountsOf(v store.Verdict) Counts {
	switch v {
	case store.Admit, store.Aggregate:
		return Counts{Admitted: 1}
	case store.Merge:
		return Counts{Merged: 1}
	case store.Drop, store.Deny:
	}
	return Counts{Dropped: 1}
}

// Count counts one write more.
func (c *Counts) Count(v store.Verdict) { *c = c.Add(CountsOf(v)) }

// Matched is how many writes were decided.
func (c Counts) Matched() int64 { return c.Admitted + c.Merged + c.Dropped }

// Add is the sum of c and d.
func (c Counts) Add(d Counts) Counts {
	return Counts{c.Admitted + d.Admitted, c.Merged + d.Merged, c.Dropped + d.Dropped}
}

// Since is what c has more than before, or all of c when it has less of something: it was
// forgotten then, and counted anew.
func (c Counts) Since(before Counts) Counts {
	if c.Admitted < before.Admitted || c.Merged < before.Merged || c.Dropped < before.Dropped {
		return c
	}
	return Counts{c.Admitted - before.Admitted, c.Merged - before.Merged, c.Dropped - before.Dropped}
}
